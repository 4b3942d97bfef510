"""Whether the file systems that somebody else serves (NFS, SMB, Lustre, FUSE ...) answer: statfs(2), asked in the helper.

A thread that waits for a file on a server that has died waits for ever, and so does whoever asks that server anything.  So
each such file system that the job uses is asked for its size, which needs an answer of the server, and a missing answer is
the best proof there is.  Only file systems that processes of the job have files of are asked, and by the very file they have.

In the helper the devices that owe an answer are known to whoever reads memory there: pages of their files are not touched.
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
"""Between two questions to a server that answers: while somebody waits for its files, else."""

LOOK_S = 0.2
"""Between two looks at a server that is waited for."""

MOST = 64
"""File systems that are asked."""


class FileServers:
    """The file systems of one job that others serve, from round to round."""

    def __init__(self, proc: Proc, *, eager: bool) -> None:
        """`eager` is for one report, which may end with any round: each waits until all have answered or are silent."""
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
        """Wait until it is known of all whether they answer, which takes little longer than `DEADLINE_S` for however many."""
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
        """It has been asked, and nobody knows yet whether it answers."""
        return self._number is not None and self.row is not None and self.row.unanswered_since is None

    def _ask(self, now: float, path: str) -> None:
        if self._proc.aside is None:
            return
        self._asked_at, self._posted_at = now, time.monotonic()
        self._spent = []
        with suppress(Unanswered):
            self._number = self._proc.aside.post(ask_server, self._proc, self._device, path)

    def hear(self, seconds: float = 0.0) -> None:
        """Take its answer, if that comes within so long."""
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
    """What the file system said instead of its size; a process that is gone, or a file that was closed, says nothing of it."""
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
