"""Whether the creator of a file is still alive: the file's name has its pid in its own pid namespace."""

from __future__ import annotations

from collections.abc import Mapping

from mpmon.model import Process
from mpmon.probes import door
from mpmon.probes.files import SHORT, Proc
from mpmon.probes.stat import Stat, boot_time

_NEVER, _LATEST = float("inf"), float(1 << 60)

SLACK_S = 2.0
"""Tolerance between file times and process times."""


class Creators:
    """Looks in the job first, then in /proc as mounted where the creator lived."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._boot = boot_time(proc)
        self._job: dict[int, list[Process]] = {}
        self._others: dict[tuple[int, bool], float | None] = {}
        self.renewals = 0
        """How often the list of living processes was renewed."""

    def renew(self, processes: Mapping[int, Process]) -> None:
        """Update the living processes of the job; forget what was learned about others."""
        self._job, self._others = {}, {}
        self.renewals += 1
        for process in processes.values():
            self._job.setdefault(inside(process), []).append(process)

    def in_job(self, creator: int, made_at: float | None) -> bool:
        """Whether a living process of the job has that pid, and had it when the file was made."""
        return any(_is_older(process.start_time, made_at) for process in self._job.get(creator, ()))

    def alive(self, creator: int, seen_by: Process, made_at: float | None) -> bool | None:
        """Whether the creator is alive; `seen_by` is a process in its pid namespace; `None` if unknown."""
        if self.in_job(creator, made_at):
            return True
        key = (creator, seen_by.namespace_pid is None)
        if key not in self._others:
            self._others[key] = self._started_at(creator, seen_by)
        began = self._others[key]
        return None if began is None else _is_older(began, made_at)

    def _started_at(self, creator: int, seen_by: Process) -> float | None:
        """Infinity if the creator does not exist."""
        if seen_by.namespace_pid is None:
            stat = Stat.read(self._proc, creator)
            return _NEVER if stat is None or stat.ended else stat.started_at(self._boot)
        if self._start_seen_by(seen_by, seen_by.namespace_pid) is None:
            return None
        began = self._start_seen_by(seen_by, creator)
        return _NEVER if began is None else began

    def _start_seen_by(self, process: Process, pid: int) -> float | None:
        """When a process started, by its pid as seen by another process, whose /proc may be anything."""
        try:
            stat = Stat(door.read(door.seen_by(self._proc, process.pid, f"/proc/{pid}/stat"), door.FILE, SHORT))
            return _NEVER if stat.ended else stat.started_at(self._boot)
        except (OSError, ValueError, IndexError, OverflowError):
            return None


def inside(process: Process) -> int:
    """Its pid in its own pid namespace."""
    return process.namespace_pid or process.pid


def _is_older(started_at: float, made_at: float | None) -> bool:
    """Whether the process with the creator's pid started after the file was made, so that it is a different one."""
    return started_at <= (made_at or _LATEST) + SLACK_S
