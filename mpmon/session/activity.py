"""Which processes run and which stand still, by the counters of their main threads from round to round."""

from __future__ import annotations

from mpmon.model import Thread
from mpmon.probes.processes import ProcessTable

STANDS_AFTER_S = 1.5
"""A main thread that did not run for this long stands still."""

NAPPER_SHARE = 0.02
"""A main thread that uses less of a CPU than this only naps and polls: it counts as standing."""


class Activity:
    """The main thread of every process of the job, and which processes have run since their last thorough look."""

    def __init__(self, table: ProcessTable, now: float) -> None:
        self._table = table
        self._motions: dict[int, _Motion] = {}
        self._noted_at = now
        self.moved: set[int] = set()
        """Processes that have run since their last look, or had none yet."""
        self.awake: frozenset[int] = frozenset()
        """Processes that do not stand still; the same object while its members are the same."""

    def note(self, now: float) -> None:
        """Update from what the process table has read in this round."""
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
        """Note that this process has just had a thorough look."""
        motion = self._motions[pid]
        motion.looked_at, motion.main_looked_at = motion.threads, motion.main
        self.moved.discard(pid)

    def rests(self, pid: int, now: float, seconds: float = STANDS_AFTER_S) -> bool:
        """Whether the main thread has not run for `seconds`."""
        return self._motions[pid].rests(now, seconds)

    def only_others_ran(self, pid: int) -> bool:
        """Whether, since the last thorough look, another thread has run but the main thread has not."""
        motion = self._motions[pid]
        return motion.main is motion.main_looked_at and motion.threads is not motion.looked_at

    def runs(self, pid: int) -> int:
        """How often the main thread was put on a CPU so far."""
        main = self._motions[pid].main
        return main.slices if main else 0

    def last_rest_began(self, now: float) -> float | None:
        """The latest time at which a main thread that now rests ran, seconds since the epoch; `None` if none rests."""
        resting = (motion for motion in self._motions.values() if motion.rests(now, STANDS_AFTER_S))
        return max((motion.ran_at for motion in resting), default=None)


class _Motion:
    """When the main thread of one process ran."""

    __slots__ = ("looked_at", "main", "main_looked_at", "ran_at", "share", "threads")

    def __init__(self, now: float) -> None:
        self.threads: tuple[Thread, ...] | None = None
        """The rows of the process's threads in the last round in which one of them had run."""
        self.looked_at: tuple[Thread, ...] | None = None
        """`threads` at the last thorough look."""
        self.main_looked_at: Thread | None = None
        self.main: Thread | None = None
        self.ran_at = now
        self.share = 1.0
        """Share of a CPU used between the last two rounds in which the main thread ran."""

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
        """Whether the main thread rests, or only naps."""
        return self.rests(now, STANDS_AFTER_S) or self.share < NAPPER_SHARE
