"""Code of the job that a library has called, and that holds the library up: callbacks of futures, and what it iterates over.

`Future.set_result` runs the callbacks in the thread that calls it (Lib/concurrent/futures/_base.py).
"""

from __future__ import annotations

from mpmon.diagnosis.edges.missing import FROM_THREADS
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.shapes import caller
from mpmon.diagnosis.stacks.waits import RESULTS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

_CALLBACKS = ("concurrent/futures/_base.py", ("_invoke_callbacks",))

_FROM_INSIDE = RESULTS | FROM_THREADS


class Callbacks:
    """Those of all processes, each searched once: `job.of(Callbacks)`."""

    def __init__(self, job: JobState) -> None:
        self._job = job
        self._holding: dict[int, tuple[ThreadKey, ...]] = {}
        self._naps: dict[int, tuple[ThreadKey, ...]] = {}

    def holding(self, pid: int) -> tuple[ThreadKey, ...]:
        """The threads of a process that wait for a result in callbacks of futures which a library has completed, so that they
        deliver none of its results, while no task of a library runs, and all other threads wait for threads of this process, or
        are such a library's own.
        """
        if pid not in self._holding:
            self._holding[pid] = self._search(pid)
        return self._holding[pid]

    def _search(self, pid: int) -> tuple[ThreadKey, ...]:
        job = self._job
        inside = (key for key in job.threads(pid) if has(job.stacks.get(key), *_CALLBACKS))
        found = tuple(key for key in inside if job.shape(key).runs and job.wait_state(key).kind is Wait.FUTURE_RESULT)
        if not found:
            return ()
        beside = (key for key in job.working_threads(pid) if key not in found)
        waiting = all(job.wait_state(key).kind in _FROM_INSIDE or job.shape(key).serves for key in beside)
        return found if waiting and all(task in found for task in job.tasks) else ()

    def but_held_up(self, key: ThreadKey, threads: tuple[ThreadKey, ...]) -> tuple[ThreadKey, ...]:
        """Drops the threads of libraries' own that bring nothing to one that waits: where a callback holds up the results, and
        those that only nap, of a library that has called the code which waits.
        """
        job = self._job
        held = frozenset[str]().union(*(job.shape(other).runs for other in self.holding(key[0])))
        called_by = caller(job.stacks.get(key))
        out = {other for other in self._napping(key[0]) if called_by in job.shape(other).serves}
        out |= {other for other in threads if held & job.shape(other).serves} if held else set()
        # Many waiters share one tuple.
        return tuple(other for other in threads if other not in out) if out else threads

    def _napping(self, pid: int) -> tuple[ThreadKey, ...]:
        """The threads of a process that run the code of libraries alone, and only nap."""
        if pid not in self._naps:
            asleep = (key for key in self._job.threads(pid) if self._job.wait_state(key).kind is Wait.SLEEP)
            polling = (key for key in asleep if self._job.motion(key) is Motion.POLLING)
            self._naps[pid] = tuple(key for key in polling if self._job.shape(key).serves)
        return self._naps[pid]
