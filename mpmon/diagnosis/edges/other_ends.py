"""Who has the other end of a pipe, socket or terminal, and which of its threads would act there."""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.edges.connections import servers
from mpmon.diagnosis.edges.ends import exits
from mpmon.diagnosis.edges.heirs import users
from mpmon.diagnosis.edges.serving import accepts, waits_inside
from mpmon.diagnosis.graph import Target
from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, EXCHANGES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import IN_VAIN_S
from mpmon.model import KernelObject
from mpmon.numerals import numeral


def other_ends(job: JobState, key: ThreadKey, item: KernelObject, *, writes: bool) -> Iterator[Target]:
    """The targets that could end a wait for one object."""
    if item.kind == "process":
        number = numeral(item.id.partition(":")[2])
        yield from exits(job, [] if number is None else [number])
        return
    if item.kind == "socket":
        yield from servers(job, item, key)
        return
    if item.kind == "terminal" and not writes and (typists := job.typists.get(item.id)):
        yield from typists
        return
    far = item.peer if item.kind == "pty" and item.peer else item.id
    if item.kind == "terminal" and writes:
        far = f"pty:{item.id.rpartition('/')[2]}"
    helpers = [
        row for row in job.holders.get(far, ())
        if (row.reads if writes else row.writes and not _never_puts(job, row.pid, item))
    ]  # fmt: skip
    others = [row for row in helpers if row.pid != key[0] and job.may_act(row.pid)]
    for handle in users(job, others, item):
        yield from _hands(job, key, handle.pid)
    for handle in helpers:
        if handle not in others and job.role(handle.pid).kind == "forkserver":
            # A fork server has that pipe only to report the exit status of its children (forkserver.py).
            yield from exits(job, job.children.get(handle.pid, ()))


def _never_puts(job: JobState, pid: int, item: KernelObject) -> bool:
    """The process has inherited a queue into which others put, has never put anything, and only waits for a signal, or sleeps in
    a loop without an exit, such as one that reports or looks after something; or it accepts connections, while one of those
    others may still put.
    """
    # Hardly any process does, while a queue may have a thousand heirs.
    main, kind = (pid, pid), job.wait_state((pid, pid)).kind
    serves = accepts(job, main)
    if not serves and kind is not Wait.SIGNAL and (kind is not Wait.SLEEP or job.tests(main) != ()):
        return False
    queue = job.queues.get(item.id)
    if queue is None or not queue.putters or pid in {*queue.putters, *queue.getters}:
        return False
    putters = [putter for putter in queue.putters if job.may_act(putter)]
    return not serves or any(job.wait_state((one, one)).kind not in ENDS_OF_PROCESSES for one in putters)


def _hands(job: JobState, key: ThreadKey, pid: int) -> Iterator[ThreadKey]:
    """The threads of a process that may act on a pipe: its working threads, except those that have run since the wait began and
    now wait for another process again; for data, those that serve beside a main thread that waits for processes to end; of a
    program that is not Python, those that pass on what they read.
    """
    first, row = acting_thread(job, pid), job.blocked.get(key)
    reads = row is not None and not row.writes
    if reads and first == (pid, pid) and job.wait_state(first).kind in ENDS_OF_PROCESSES:
        yield from (other for other in job.accepting.get(pid, ()) if job.wait_state(other).idle)
    if not _leaves_to_starter(job, key, first):
        yield first
    if pid in job.foreign:
        yield from (other for other in job.natives(pid) if other != first and job.wait_state(other).kind in EXCHANGES)
    waiter = job.thread_history(key)
    for other in job.others_at_work(first) if first[1] == pid else ():
        past = job.thread_history(other)
        in_vain = past and waiter and past.ran_at > waiter.ran_at + IN_VAIN_S and not waits_inside(job, other)
        if not in_vain and job.motion(other) is not Motion.POLLING and not _serves_library(job, other, key):
            yield other


def _leaves_to_starter(job: JobState, key: ThreadKey, loop: ThreadKey) -> bool:
    """An event loop does not watch the pipe, and another thread of its process waits, in code that a library has called, for the
    end of the one that writes to it: that thread has started the writer, and has its pipes.
    """
    row, waiter = job.blocked.get(loop), job.blocked.get(key)
    if job.wait_state(loop).kind is not Wait.EVENT_LOOP or row is None or waiter is None or not waiter.writes:
        return False
    starters = (job.blocked[other] for other in job.threads(loop[0]) if other in job.blocked and job.shape(other).runs)
    return set(row.waits_on).isdisjoint(waiter.waits_on) and any(
        f"process:{key[0]}" in one.waits_on for one in starters
    )


def _serves_library(job: JobState, key: ThreadKey, waiter: ThreadKey) -> bool:
    """The thread is a library's own, which transfers only the library's data, and the waiter does not use that library."""
    packages = job.shape(key).serves
    of_waiter = job.shape(waiter)
    return bool(packages) and not packages & (of_waiter.asks | of_waiter.runs | of_waiter.serves)


def acting_thread(job: JobState, pid: int) -> ThreadKey:
    """The thread of a process that would act on the pipe: a feeder thread blocked while sending, else the main thread."""
    for other in job.threads(pid):
        stack = job.stacks.get(other)
        if stack and job.wait_state(other).kind in (Wait.LOCK, Wait.PIPE_WRITE) and is_feeder(stack):
            return other
    return pid, pid


def reads_from_command(job: JobState, key: ThreadKey) -> bool:
    """All at the other end of its pipe are programs that are not of Python, so none of them runs the library."""
    names = [item.id for item in job.waits_on(key) if item.kind == "pipe"]
    writers = {row.pid for name in names for row in job.holders.get(name, ()) if row.writes and row.pid != key[0]}
    return bool(writers) and all(pid in job.foreign for pid in writers)
