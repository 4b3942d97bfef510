"""Whether file systems with an external server (NFS, SMB, Lustre, FUSE ...) answer: statfs(2), called in the helper.

A thread that waits for a file on a dead server waits forever, and so does any request to that server. So each such file
system that the job uses is asked for its size, which requires an answer of the server, and a missing answer is the best
proof.  Only file systems that processes of the job have files of are asked, through the same file that they use.

In the helper, memory readers know which devices have not answered: pages of their files are not touched.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from mpmon.model import Mount
from mpmon.probes.aside import Unanswered
from mpmon.probes.files import Proc
from mpmon.probes.kernel.holdings import ServedFile
from mpmon.probes.silence import DEADLINE_S, awaiting
from mpmon.rows import shared_by

AGAIN_WAITED_FOR_S, AGAIN_S = 5.0, 60.0
"""Interval between requests to a server that answers: while a process waits for its files, and otherwise."""

LOOK_S = 0.2
"""Interval between two checks of a server that a process waits for."""

MOST = 64
"""Limit of file systems that are asked."""


class FileServers:
    """The externally served file systems of one job, from round to round."""

    def __init__(self, proc: Proc, *, eager: bool) -> None:
        """`eager` is for a one-shot report, which may end with any round: each round waits until all have answered or
        are silent.
        """
        self._proc = proc
        self._eager = eager
        self._servers: dict[str, _Server] = {}
        self.rows: tuple[Mount, ...] = ()

    def refresh(
        self, served: Mapping[int, tuple[ServedFile, ...]], waited_for: Iterable[str], now: float
    ) -> tuple[Mount, ...]:
        """The rows after another round; `served` is what each process uses, `waited_for` are devices."""
        users: dict[str, dict[int, ServedFile]] = {}
        for pid, files in served.items():
            for file in files:
                users.setdefault(file.mount.device, {})[pid] = file
        self._servers = {
            device: self._servers.get(device) or _Server(self._proc, device) for device in sorted(users)[:MOST]
        }
        awaited = frozenset(waited_for)
        for device, server in self._servers.items():
            server.refresh(users[device], now, AGAIN_WAITED_FOR_S if device in awaited else AGAIN_S)
        if self._eager:
            self._settle()
        rows = tuple(server.row for server in self._servers.values() if server.row)
        self.rows = shared_by(lambda row: row.device, rows, self.rows)
        return self.rows

    def _settle(self) -> None:
        """Wait until each has answered or missed its deadline, which takes little more than `DEADLINE_S` in total."""
        until = time.monotonic() + 2 * DEADLINE_S
        while (owing := [server for server in self._servers.values() if server.owes]) and time.monotonic() < until:
            owing[0].hear(LOOK_S)
            for server in owing[1:]:
                server.hear()


class _Server:
    """One file system."""

    def __init__(self, proc: Proc, device: str) -> None:
        self._proc = proc
        self._device = device
        self._number: int | None = None
        self._spent: list[bytes] = []
        self._asked_at = float("-inf")
        """Seconds since the epoch."""
        self._posted_at = 0.0
        """Of time.monotonic()."""
        self.row: Mount | None = None

    def refresh(self, users: Mapping[int, ServedFile], now: float, again_s: float) -> None:
        first = users[min(users)]
        before = self.row
        self.row = Mount(
            device=self._device, kind=first.mount.kind, source=first.mount.source, path=first.mount.path,
            pids=tuple(sorted(users)), asked_at=None if self._asked_at < 0 else self._asked_at,
            unanswered_since=before.unanswered_since if before else None, problem=before.problem if before else None,
        )  # fmt: skip
        if self._number is None and now - self._asked_at >= again_s:
            self._ask(now, first.asked_by)
        self.hear()

    @property
    def owes(self) -> bool:
        """It was queried and has not answered yet."""
        return self._number is not None and self.row is not None and self.row.unanswered_since is None

    def _ask(self, now: float, path: str) -> None:
        if self._proc.aside is None:
            return
        self._asked_at, self._posted_at = now, time.monotonic()
        self._spent = []
        with suppress(Unanswered):
            self._number = self._proc.aside.post(ask_server, self._proc, self._device, path)

    def hear(self, seconds: float = 0.0) -> None:
        """Take its answer if it comes within this time."""
        aside, row, number = self._proc.aside, self.row, self._number
        if aside is None or row is None or number is None:
            return
        try:
            answer = aside.posted(number, seconds)
            if answer is not None:
                self._number = None
                self.row = msgspec.structs.replace(
                    row, asked_at=self._asked_at, unanswered_since=None, problem=_problem(answer.raised)
                )
            elif time.monotonic() - self._posted_at >= DEADLINE_S and not aside.makes_headway(number, self._spent):
                self.row = msgspec.structs.replace(row, asked_at=self._asked_at, unanswered_since=self._asked_at)
        except Unanswered:
            self._number = None


def _problem(raised: BaseException | None) -> str | None:
    """The file system's error instead of its size; errors about an ended process or a closed file are not its own."""
    if not isinstance(raised, OSError) or raised.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
        return None
    return (raised.strerror or "failed").lower()


def ask_server(_proc: Proc, device: str, path: str) -> None:
    """In the helper: ask the file system of a file for its size.

    Raises:
        OSError: as statvfs(3).
    """
    with awaiting(device):
        os.statvfs(path)
