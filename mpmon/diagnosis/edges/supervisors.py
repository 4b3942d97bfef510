"""Waits of a process that started others and only waits for a signal: what keeps it from being idle."""

from __future__ import annotations

from collections.abc import Iterable

from mpmon.diagnosis.edges.items import queue_of
from mpmon.diagnosis.edges.serving import awaited
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, FROM_PEOPLE, SIGNAL_CALLS, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Handle, KernelObject

_READS = COMES_BY_READING | {Wait.SOCKET, Wait.THREAD_QUEUE}


def end_by_signal(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A process that started others and only waits for a signal counts as progressing while any of these does, or if
    none has to.
    """
    mates = [pid for pid in job.helpmates(key[0]) if not job.wait_state((pid, pid)).idle]
    fed = fed_by(job, key[0], mates) if _waits_for_anybody(job, key) else set[int]()
    busy = tuple((pid, pid) for pid in mates if pid not in fed and not job.only_sleeps((pid, pid)))
    return WaitEdge(busy, words="a signal, while other processes work") if busy else None


def _waits_for_anybody(job: JobState, key: ThreadKey) -> bool:
    """Not only for signals that programs send each other, as one of those that it started may."""
    row, process = job.blocked.get(key), job.processes[key[0]]
    if row and row.signals:
        return not FROM_PEOPLE.isdisjoint(row.signals)
    return process.catches_term or not process.catches_call or not (row and row.syscall in SIGNAL_CALLS)


def fed_by(job: JobState, pid: int, mates: Iterable[int]) -> set[int]:
    """Those of these that wait for what only this process gives them, or such ones do: workers without work. No circle of those
    that wait for each other.
    """
    fed, sends = {pid}, not _works_beside(job, pid)
    while more := {mate for mate in mates if mate not in fed and _is_fed_by(job, mate, fed, pid if sends else None)}:
        fed |= more
    return fed - {pid}


def _is_fed_by(job: JobState, pid: int, fed: set[int], sender: int | None) -> bool:
    """The main thread waits for an item, or for its turn to, of a queue into which none but these have put; for data that the
    sender may send, where the others have only inherited its pipes; or for an event that the handler of a signal may set.
    """
    main = (pid, pid)
    if job.wait_state(main).kind is Wait.PROCESS_EVENT:
        return not in_barrier(job.stacks.get(main)) and any(_may_be_set(job, item, fed) for item in job.waits_on(main))
    if job.wait_state(main).kind not in _READS:
        return False
    if (queue := queue_of(job, main)) and queue.putters:
        return fed.issuperset(queue.putters)
    if queue and queue.object not in {item.id for item in job.waits_on(main)}:
        return any(row.writes and row.pid in fed for row in job.holders.get(queue.object, ()))
    objects = awaited(job, main)
    if not objects:
        # It asks again and again between naps: for which queue is unknown, but its starter may have put into it.
        return job.wait_state(main).kind is Wait.QUEUE_GET and job.starter(pid) in fed
    return all(any(row.pid == sender and (item.peer or row.writes) for row in _far_end(job, item)) for item in objects)


def _far_end(job: JobState, item: KernelObject) -> list[Handle]:
    return job.holders.get(item.peer or item.id, [])


def _works_beside(job: JobState, pid: int) -> bool:
    """A thread beside the main one does something else than to wait for data, or to poll."""
    return any(
        job.wait_state(key).kind not in _READS and not job.only_polls(key) for key in job.others_at_work((pid, pid))
    )


def _may_be_set(job: JobState, item: KernelObject, fed: set[int]) -> bool:
    """One of these has it, and handles a signal: the handler may set it."""
    able = (job.processes[row.pid] for row in job.holders.get(item.id, ()) if row.pid in fed)
    return any(process.catches_term or process.catches_call for process in able)
