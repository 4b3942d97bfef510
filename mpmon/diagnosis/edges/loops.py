"""Event loops whose tasks wait for each other, for nobody, for a child, or for data from other processes of the job: see
`mpmon.diagnosis.loops`.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.messages import has_mail
from mpmon.diagnosis.edges.other_ends import other_ends
from mpmon.diagnosis.edges.servants import busy_threads, executor_threads
from mpmon.diagnosis.edges.serving import accepts
from mpmon.diagnosis.edges.supervisors import fed_by
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.loops import (
    BODY,
    CONNECTIONS,
    ENDS_OF_TASKS,
    EXECUTOR,
    READY,
    REQUESTS,
    ROOM,
    SIGNS,
    SLEEP,
    STREAM,
    THREAD,
    does,
    place_of,
)
from mpmon.diagnosis.progress.ticking import only_beats
from mpmon.diagnosis.roles import HELPERS, POOL_WORKERS
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

MOST_TOLD = 4
"""Tasks whose waits the evidence lists."""


def stuck_loop(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The targets of a loop with only stuck tasks: itself, or other processes; `None` for any other loop."""
    if edge := _executor(job, key):
        return edge
    tasks = job.of(EventLoops).stuck(key)
    if not tasks:
        return _held_up(job, key)
    told = [f"{row.name} {does(row, tasks)}{place_of(row)}" for row in tasks[:MOST_TOLD]]
    more = f" and {len(tasks) - MOST_TOLD} more" if len(tasks) > MOST_TOLD else ""
    evidence = f"tasks of the event loop of pid {key[0]}: {'; '.join(told)}{more}"
    if all(row.waits == READY for row in tasks):
        names = several([row.name or "a task" for row in tasks[:MOST_TOLD]])
        why = f"nothing woke the loop when {names} became ready"
        return WaitEdge(
            (NoReleaser(why, blame=(key[0],), reason=Absent.NOT_WOKEN),),
            words="its event loop to continue",
            evidence=evidence,
        )
    if children := tuple(dict.fromkeys((row.child, row.child) for row in tasks if row.child is not None)):
        # A child may take any time to end; but one that waits for room in a pipe nobody reads never ends.
        if any(job.wait_state(child).kind is not Wait.PIPE_WRITE for child in children):
            return None
        names = job.names(children)
        return WaitEdge(children, words=f"the end of {names}", evidence=evidence)
    if kinds := CONNECTIONS.intersection(row.waits for row in tasks if row.waits):
        return _other_side(job, key, evidence, writes=STREAM not in kinds)
    return WaitEdge(
        (key,), every=True, polled=True, words="something only its own tasks could provide", evidence=evidence
    )


def _held_up(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A server's loop whose requests all wait for their own clients."""
    tasks = job.of(EventLoops).held_up(key)
    kinds = {row.waits for row in tasks}
    ways = [writes for writes, kind in ((False, BODY), (True, ROOM)) if kind in kinds]
    ends = dict.fromkeys(
        end
        for item in job.of(EventLoops).clients(key)
        for way in ways
        for end in other_ends(job, key, item, writes=way)
    )
    if not ends:
        return None
    names = several(list(dict.fromkeys(job.name(end[0]) for end in ends if isinstance(end, tuple))))
    told = [f"{row.name} {does(row, tasks)}{place_of(row)}" for row in tasks[:MOST_TOLD]]
    words = f"{names} to read what it sends" if kinds == {ROOM} else f"the rest of a request of {names}"
    return WaitEdge(
        tuple(ends),
        of_room=kinds == {ROOM},
        words=words,
        evidence=f"tasks of the event loop of pid {key[0]}: {'; '.join(told)}",
    )


def _executor(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Once its main task is done, `asyncio.run` waits for the threads of the loop's executor, whatever they do."""
    if not any(row.waits == EXECUTOR for row in job.of(EventLoops).tasks.get(key, ())):
        return None
    threads = [other for other in executor_threads(job, key) if not job.wait_state(other).idle]
    own = [other for other in threads if job.thread_name(other).startswith(DEFAULT)] or threads
    if not own:
        return None
    names = several([job.thread_name(other) for other in own])
    return WaitEdge(tuple(own), every=True, words=f"the end of {names}, thread{'s' * (len(own) > 1)} of its executor")


DEFAULT = "asyncio_"
"""Begins the names of the threads of a loop's default executor (asyncio/base_events.py)."""


def _other_side(job: JobState, key: ThreadKey, evidence: str, *, writes: bool) -> WaitEdge | None:
    """Threads that could send something over a connection of the loop, or read what it `writes`: until then it does not read."""
    if not writes and has_mail(job, key):
        return None
    ends = dict.fromkeys(
        end for item in job.of(EventLoops).partners(key) for end in other_ends(job, key, item, writes=writes)
    )
    if not ends:
        return None
    names = several(list(dict.fromkeys(job.name(end[0]) for end in ends if isinstance(end, tuple))))
    words = f"{names} to read what it sends" if writes else f"an answer from {names}"
    return WaitEdge(tuple(ends), of_room=writes, words=words, evidence=evidence)


def event_loop(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Targets that may complete one of the loop's futures: another thread, a busy worker, a child, else an external party;
    `None` if a signal handler or a timer among the descriptors may.
    """
    if job.may_be_called(key[0]) or any(item.kind in _OF_THE_KERNEL for item in job.waits_on(key)):
        return None
    if edge := threads_of_tasks(job, key):
        return edge
    threads = [other for other in job.others_at_work(key) if not only_beats(job, other)]
    workers = list(busy_threads(job, [pid for pid in job.clients.get(key[0], ()) if job.role(pid).kind not in HELPERS]))
    if _hears_only_itself(job, key):
        workers = [worker for worker in workers if not _has_answered(job, key[0], worker)]
    supervises = _only_supervises(job, key)
    if supervises:
        fed = fed_by(job, key[0], [pid for pid, _ in workers])
        workers = [worker for worker in workers if worker[0] not in fed]
    words = job.wait_state(key).words
    # The socket whose other end it has itself is only its wake-up socket.
    items = [item for item in job.waits_on(key) if item.peer not in job.held_by.get(key[0], frozenset())]
    ends = [target for item in items for target in other_ends(job, key, item, writes=False)]
    if targets := tuple(dict.fromkeys((*threads, *workers, *ends))):
        return WaitEdge(targets, words=words)
    if supervises:
        return None
    return WaitEdge((_nobody_at_hand(job, key),), words=words)


def _only_supervises(job: JobState, key: ThreadKey) -> bool:
    """A process that handles SIGTERM, and whose tasks only wait for events, which its handler may set, or for the next round."""
    waits = [row.waits for row in job.of(EventLoops).known(key)]
    return job.processes[key[0]].catches_term and any(kind in SIGNS for kind in waits) and _AT_REST.issuperset(waits)


def _has_answered(job: JobState, pid: int, worker: ThreadKey) -> bool:
    """A server to which the process holds connections waits for requests, and for no room to answer earlier ones: it has nothing
    to do for that one. What a task of a pool returns is another matter.
    """
    held = job.held_by.get(pid, frozenset())
    asked = any(item.kind == "socket" and item.peer in held for item in job.waits_on(worker))
    return (
        asked
        and accepts(job, worker)
        and job.role(worker[0]).kind not in POOL_WORKERS
        and not job.of(EventLoops).held_up(worker)
    )


def _nobody_at_hand(job: JobState, key: ThreadKey) -> External:
    """A party outside the job; or nobody, if the loop hears only what its own process tells it."""
    return External(
        "something outside the job, or a future that nothing completes",
        reason=Absent.FUTURE if _hears_only_itself(job, key) else None,
    )


def _hears_only_itself(job: JobState, key: ThreadKey) -> bool:
    """The loop has no time limit and watches only its own wake-up socket (asyncio/selector_events.py), while no native thread
    works that could use that, and no signal is handled.
    """
    blocked, pid = job.blocked.get(key), key[0]
    alone = blocked is not None and blocked.timeout_s is None and len(blocked.waits_on) == 1
    return alone and not job.processes[pid].catches_term and not job.natives_at_work(pid)


def resting_loop(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A loop whose tasks all wait for something, of which none polls: for threads, for children, or for what another thread may
    bring; nobody but itself could provide it, if there is none.
    """
    if edge := threads_of_tasks(job, key):
        return edge
    tasks = job.of(EventLoops).resting(key)
    children = [(row.child, row.child) for row in tasks if row.child is not None]
    others = job.others_at_work(key)
    if targets := tuple(dict.fromkeys((*children, *others))):
        words = job.wait_state(key).words if others else f"the end of {job.names(children)}"
        return WaitEdge(targets, words=words)
    told = "; ".join(f"{row.name} {does(row, tasks)}{place_of(row)}" for row in tasks[:MOST_TOLD])
    words, evidence = "something only its own tasks could provide", f"tasks of the event loop of pid {key[0]}: {told}"
    return WaitEdge((key,), every=True, polled=True, words=words, evidence=evidence)


def threads_of_tasks(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """For a loop whose tasks all await results of threads, or each other's ends, or only report: the threads of its process that
    run tasks of an executor.
    """
    kinds = {row.waits for row in job.of(EventLoops).tasks.get(key, ()) if not row.only_reports}
    if any(job.role(pid).kind in POOL_WORKERS for pid in job.clients.get(key[0], ())):
        # The result may be that of a process of a pool.
        return None
    threads = [other for other in executor_threads(job, key) if not job.wait_state(other).idle]
    if THREAD not in kinds or not kinds <= {THREAD, *ENDS_OF_TASKS} or not threads:
        return None
    names = several([job.thread_name(other) for other in threads])
    words = f"the result of a task that thread{'s' if len(threads) > 1 else ''} {names} run{'' if len(threads) > 1 else 's'}"
    return WaitEdge(tuple(threads), basis=Basis.MEMORY, words=words)


_AT_REST = frozenset({*SIGNS, *ENDS_OF_TASKS, SLEEP, REQUESTS})

_OF_THE_KERNEL = frozenset({"timerfd", "signalfd", "inotify"})
"""Descriptors that the kernel makes readable, by itself or for any program."""
