"""Processes outside the job that hold a pipe or map a semaphore which a thread of the job waits on.

A daemon that left the job's tree, the `tee` at the end of the shell's pipeline, a process that was sent the descriptor:
as long as one of them has the other end, it may act, and the wait is not hopeless. Only the names of other processes'
open files are read, once for each object waited for, and again after a while; other users' processes may not be read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator

from mpmon.model import Handle
from mpmon.probes.aside import Unanswered, may_hang
from mpmon.probes.files import Proc
from mpmon.probes.maps import areas, is_shared

DEADLINE_S = 1.0
"""Time limit, seconds, for one pass through all processes."""

AGAIN_S = 10.0
"""Interval, seconds, between two passes for the same objects."""

SHARE, SHARE_AGAIN = 0.01, 0.0002
"""Share of one CPU that may be spent on it, and on passes for the same objects."""

MOST_OBJECTS = 4096
"""Most objects remembered."""

MOST_HANDLES = 512
"""Most descriptors examined per process."""


class Outsiders:
    """The holders found so far."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._asked: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._cost_s = 0.0
        self._found: tuple[Handle, ...] = ()

    def holders(self, names: frozenset[str], job: Collection[int], now: float) -> tuple[Handle, ...]:
        """The handles of processes outside the job to these objects."""
        pause = max(AGAIN_S, self._cost_s / SHARE_AGAIN) if names <= self._asked else self._cost_s / SHARE
        if names and now - self._asked_at >= pause:
            # Threads go back and forth between objects: those of before are looked for too.
            self._asked = self._asked | names if len(self._asked) < MOST_OBJECTS else names
            self._asked_at = now
            started = time.monotonic()
            try:
                found = _holders(self._proc, self._asked, frozenset(job) | {self._proc.own_pid()})
            except Unanswered:
                # The mappings of some process cannot be read now.
                found = self._found
            self._cost_s = time.monotonic() - started
            self._found = found if found != self._found else self._found
        if any(row.pid in job for row in self._found):
            self._found = tuple(row for row in self._found if row.pid not in job)
        return self._found


@may_hang
def _holders(proc: Proc, names: frozenset[str], but: frozenset[int | None]) -> tuple[Handle, ...]:
    """The handles to these objects of all processes `but` some."""
    return tuple(_all(proc, names, but))


def _all(proc: Proc, names: frozenset[str], but: frozenset[int | None]) -> Iterator[Handle]:
    mapped = any(name.startswith("semaphore:") for name in names)
    deadline = time.monotonic() + DEADLINE_S
    # The youngest first: most that have something of the job started after it.
    for pid in sorted(proc.pids(), reverse=True):
        if pid in but:
            continue
        if time.monotonic() > deadline:
            return
        try:
            yield from _open(proc, pid, names)
            if mapped:
                shared = {area.semaphore for area in areas(proc, pid, is_shared)}
                yield from (Handle(pid=pid, object=name) for name in sorted(shared & names))
        except OSError:
            continue


def _open(proc: Proc, pid: int, names: frozenset[str]) -> Iterator[Handle]:
    for name in os.listdir(proc.path(pid, "fd"))[:MOST_HANDLES]:
        target = proc.link(pid, "fd", name)
        kind, _, rest = target.partition(":")
        if kind == "pipe" and f"pipe:{rest.strip('[]')}" in names:
            # The permission bits of the link tell how the file was opened: proc_pid_fd(5).
            mode = os.lstat(proc.path(pid, "fd", name)).st_mode
            yield Handle(
                pid=pid,
                object=f"pipe:{rest.strip('[]')}",
                fd=int(name),
                reads=bool(mode & 0o400),
                writes=bool(mode & 0o200),
            )
