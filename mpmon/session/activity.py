"""Who runs and who stands still, by the counters of main threads from round to round."""

from __future__ import annotations

from mpmon.model import Thread
from mpmon.probes.processes import ProcessTable

STANDS_AFTER_S = 1.5
"""A main thread that did not run for so long stands still."""

NAPPER_SHARE = 0.02
"""A main thread that uses less of a CPU than this only naps and polls: it counts as standing."""


class Activity:
    """The main thread of every process of the job, and who has run since the last thorough look at it."""

    def __init__(self, table: ProcessTable, now: float) -> None:
        self._table = table
        self._motions: dict[int, _Motion] = {}
        self._noted_at = now
        self.moved: set[int] = set()
        """Processes that have run since they were looked at, or were not looked at yet."""
        self.awake: frozenset[int] = frozenset()
        """Processes that do not stand; the very same set as long as it says the same."""

    def note(self, now: float) -> None:
        """Take in what the process table has read in this round."""
        elapsed = max(1e-3, now - self._noted_at)
        self._noted_at = now
        for pid in self._motions.keys() - self._table.pids:
            del self._motions[pid]
            self.moved.discard(pid)
        for pid in self._table.may_have_run:
            threads = self._table.threads_of(pid)
            motion = self._motions.setdefault(pid, _Motion(now))
            motion.note(threads, pid, now, elapsed)
            if motion.looked_at is not threads:
                self.moved.add(pid)
        candidates = {*self.awake, *self._table.may_have_run} & self._motions.keys()
        awake = frozenset(pid for pid in candidates if not self._motions[pid].stands(now))
        self.awake = awake if awake != self.awake else self.awake

    def note_look(self, pid: int) -> None:
        """This process has just been looked at."""
        motion = self._motions[pid]
        motion.looked_at, motion.main_looked_at = motion.threads, motion.main
        self.moved.discard(pid)

    def rests(self, pid: int, now: float, seconds: float = STANDS_AFTER_S) -> bool:
        """Its main thread has not run for so long."""
        return self._motions[pid].rests(now, seconds)

    def only_others_ran(self, pid: int) -> bool:
        """Since the last thorough look its main thread has not run, and another thread has."""
        motion = self._motions[pid]
        return motion.main is motion.main_looked_at and motion.threads is not motion.looked_at

    def runs(self, pid: int) -> int:
        """How often its main thread was put on a CPU so far."""
        main = self._motions[pid].main
        return main.slices if main else 0

    def last_rest_began(self, now: float) -> float | None:
        """When the one of those that rest that ran last did so, seconds since the epoch; `None` where none rests."""
        resting = (motion for motion in self._motions.values() if motion.rests(now, STANDS_AFTER_S))
        return max((motion.ran_at for motion in resting), default=None)


class _Motion:
    """When the main thread of one process ran."""

    __slots__ = ("looked_at", "main", "main_looked_at", "ran_at", "share", "threads")

    def __init__(self, now: float) -> None:
        self.threads: tuple[Thread, ...] | None = None
        """The rows of the process's threads, when one of them was seen to have run last."""
        self.looked_at: tuple[Thread, ...] | None = None
        """The same at the last thorough look."""
        self.main_looked_at: Thread | None = None
        self.main: Thread | None = None
        self.ran_at = now
        self.share = 1.0
        """Of a CPU, between the last two rounds in which it ran."""

    def note(self, threads: tuple[Thread, ...], pid: int, now: float, elapsed: float) -> None:
        if threads is self.threads and self.main is not None:
            return
        self.threads = threads
        main = next((row for row in threads if row.tid == pid), None)
        if main is not self.main:
            if main and self.main:
                self.share = (main.run_ns - self.main.run_ns) / 1e9 / elapsed
            self.main = main
            self.ran_at = now

    def rests(self, now: float, seconds: float) -> bool:
        return now - self.ran_at >= seconds

    def stands(self, now: float) -> bool:
        """It rests, or only naps."""
        return self.rests(now, STANDS_AFTER_S) or self.share < NAPPER_SHARE
