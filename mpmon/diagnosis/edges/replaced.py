"""Workers of a pool that died, as those show that took their places."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mpmon.diagnosis.edges.numbered import POOL_NUMBERED, forgotten_child, missing_number
from mpmon.diagnosis.stacks.frames import calls, has
from mpmon.diagnosis.state.job_state import JobState
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
    which is itself started after the first ones; else the numbers in the workers' names show that one is missing. Workers of a
    pool with `maxtasksperchild` are replaced without having died.
    """
    workers = sorted((job.processes[pid].start_time, pid) for pid in pids if pid in job.processes)
    if not workers or any("maxtasks" in of_worker(job.stacks.get((pid, pid))) for _, pid in workers):
        return None
    pids = [pid for _, pid in workers]
    starter = max((tid for pid in pids for tid in _starters(job, pid)), default=None)
    if starter is None:
        return _by_number(job, pids[-1])
    late = next((at for at, pid in enumerate(pids) if pid > starter), None)
    if late is None:
        return None
    gone = forgotten_child(job, pids[late], POOL_NUMBERED)
    dead = (gone,) if gone is not None else _between(pids, late, starter) if late else _before(job, pids, starter)
    return Replaced(pids[late], f"pid {pids[late]} was started after the pool's thread that replaces workers", dead)


def _by_number(job: JobState, youngest: int) -> Replaced | None:
    if missing_number(job, youngest, POOL_NUMBERED) is None:
        return None
    gone = forgotten_child(job, youngest, POOL_NUMBERED)
    shown_by = f"the number in its name shows that one more process was started before pid {youngest}"
    return Replaced(youngest, shown_by, () if gone is None else (gone,))


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


def _between(workers: list[int], late: int, starter: int) -> tuple[int, ...]:
    """The pids that are missing among those of the workers before the late ones, if there are as many. Processes forked one after
    the other get consecutive pids, the pool's first thread the next one.
    """
    together = workers[:late]
    gaps = sorted(set(range(min(together), starter)) - set(together))
    return tuple(gaps if len(gaps) == len(workers) - late else ())


def _before(job: JobState, workers: list[int], starter: int) -> tuple[int, ...]:
    """If all were started late: as many unused pids right before the pool's thread that starts workers."""
    first = tuple(range(starter - len(workers), starter))
    taken = {*job.processes, *(thread.tid for thread in job.snapshot.threads)}
    return first if taken.isdisjoint(first) else ()
