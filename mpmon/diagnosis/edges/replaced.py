"""Workers of a pool that died, as those show that took their places."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from mpmon.diagnosis.edges.numbered import POOL_NUMBERED, forgotten_child, missing_number
from mpmon.diagnosis.stacks.frames import calls, has
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import STARTED_TOGETHER_S
from mpmon.model import Stack


class Replaced(msgspec.Struct, frozen=True, gc=False):
    """A pool worker that died, as its replacement shows."""

    successor: int
    shown_by: str
    """The fact that shows it."""
    dead: tuple[int, ...] = ()
    """Pids missing between the siblings' pids; empty if that is ambiguous."""


STARTS_WORKERS = ("multiprocessing/pool.py", ("_handle_workers",))
"""The thread that replaces a pool's workers."""


def replaced(job: JobState, pids: Iterable[int]) -> Replaced | None:
    """A pool starts a new worker for one that died: the new one's pid is above the id of the pool's thread that starts workers,
    which is itself started after the first ones; else the numbers in the workers' names show that one is missing, or the
    new worker is much younger than the others. Workers of a pool with `maxtasksperchild` are replaced without having died.
    """
    workers = sorted((job.processes[pid].start_time, pid) for pid in pids if pid in job.processes)
    if any("maxtasks" in of_worker(job.stacks.get((pid, pid))) for _, pid in workers):
        return None
    starter = max((tid for _, pid in workers for tid in _starters(job, pid)), default=None)
    late = _latecomer([at for at, _ in workers]) if starter is None else _above(starter, [pid for _, pid in workers])
    youngest = len(workers) - 1 if late is None else late
    told = starter is None and bool(workers) and missing_number(job, workers[youngest][1], POOL_NUMBERED) is not None
    if late is None and not told:
        return None
    (begin, first), (at, successor) = workers[0], workers[youngest]
    gone = forgotten_child(job, successor, POOL_NUMBERED)
    if starter is not None:
        shown_by = f"pid {successor} was started after the pool's thread that replaces workers"
    elif told:
        shown_by = f"the number in its name shows that one more process was started before pid {successor}"
    else:
        shown_by = f"pid {successor} was started {at - begin:.1f} s after pid {first}"
    pids = [pid for _, pid in workers]
    dead = (gone,) if gone is not None else _between(job, pids, late, starter) if late else _before(job, pids, starter)
    return Replaced(successor, shown_by, dead)


def of_worker(stack: Stack | None) -> frozenset[str]:
    """Which of a pool worker's own counters are set, by the frame of `worker` (multiprocessing/pool.py): `completed`, its tasks,
    once its initializer has returned, and `maxtasks`.
    """
    frames = (frame for frame in (stack.frames if stack else ()) if calls(frame, *WORKER))
    return frozenset().union(*(frame.known or () for frame in frames))


WORKER = ("multiprocessing/pool.py", ("worker",))


def _starters(job: JobState, worker: int) -> list[int]:
    """The ids of the threads that start workers in the process whose pool a worker belongs to."""
    threads = job.threads(job.role(worker).parent or 0)
    return [key[1] for key in threads if (stack := job.stacks.get(key)) and has(stack, *STARTS_WORKERS)]


def _above(starter: int, pids: list[int]) -> int | None:
    """Index of the first worker that was started after a thread: the kernel numbers both alike, in the order of their starts."""
    return next((at for at, pid in enumerate(pids) if pid > starter), None)


def _between(job: JobState, workers: list[int], late: int, starter: int | None) -> tuple[int, ...]:
    """The pids that are missing among those of the workers before the late ones, if there are as many."""
    together = workers[:late]
    # Processes forked one after the other get consecutive pids, the pool's first thread the next one.
    gaps = sorted(set(range(min(together), starter or max(together))) - set(together))
    count, after = len(workers) - late, max(together) + 1
    if starter is None and not gaps and count == 1 and after not in job.processes and after < workers[late]:
        # The worker that was started last has died.
        gaps = [after]
    return tuple(gaps if len(gaps) == count else ())


def _before(job: JobState, workers: list[int], starter: int | None) -> tuple[int, ...]:
    """If all were started late: as many unused pids right before the pool's thread that starts workers."""
    first = () if starter is None else tuple(range(starter - len(workers), starter))
    taken = {*job.processes, *(thread.tid for thread in job.snapshot.threads)}
    return first if taken.isdisjoint(first) else ()


def _latecomer(starts: list[float]) -> int | None:
    """Index of the first worker that started long after the others, relative to the gaps between their starts."""
    gaps = [after - before for before, after in pairwise(starts)]
    if not gaps or max(gaps) < STARTED_TOGETHER_S:
        return None
    place = gaps.index(max(gaps))
    rest = gaps[:place] + gaps[place + 1 :]
    return place + 1 if not rest or max(gaps) > 4 * max(rest) else None
