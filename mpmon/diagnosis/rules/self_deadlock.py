"""A thread, a pool or an event loop waits for something that only it could provide.

What it looks like: one thread takes a lock it already holds. Or it opens a file again and waits for the flock it took through
the first open. Or a task of an executor waits for tasks of the same executor, whose workers are all busy waiting. Or a server
that handles one connection at a time sends itself a request. Or the reader of a pipe holds the only writing end itself. Or a
consumer joins a `JoinableQueue` before calling `task_done` for the item it is processing. Or all tasks of an event loop wait
for each other, or for a queue that none of them serves, while a heartbeat task continues.
What to do: use `RLock`, or do not call back under the lock; never wait for a pool's results inside its tasks; leave `join` to
the producers.
"""

from __future__ import annotations

from collections.abc import Callable

from mpmon.diagnosis.criteria.parts import in_own_pool, keeps_own_loop, waiter_for_lock
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.humanize import several, verb
from mpmon.diagnosis.loops import deadlocked, does, first, forsaken, in_circle, place_of
from mpmon.diagnosis.responsibility.servers import loop_keeper
from mpmon.diagnosis.stacks.waits import LOCKS_OF_THREADS, RESULTS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.joinable_queue import own_tasks
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.model import Task

CAUSE = "self-deadlock"
NEEDS = frozenset({"stacks", "blocked", "locks"})

_OWN = {
    Absent.OWN_LOCK: (
        "a lock that only it can be holding",
        "Use RLock, or do not call code that takes the lock while holding it.",
    ),
    Absent.ALONE: (
        "a Python lock or queue that only another thread of its process could serve, and there is no other thread",
        "With green threads, use their own locks and queues: a real one blocks all green threads at once.",
    ),
    Absent.PERMIT_LOST: (
        "a permit of a threading semaphore, and no thread is left that could give one back",
        "Give every permit back in a finally block or by `with`: whoever returns or raises before release() keeps it for ever.",
    ),
    Absent.POOL_EMPTY: (
        "a connection of a pool that has none left, and no other thread of its process is left that could give one back",
        "Give every connection back on every path (`with engine.connect() as connection`), or let the pool have more of them.",
    ),
    Absent.FUTURE: (
        "a future that nothing can complete: its event loop watches no descriptor but its own, and no thread or child could",
        "Look for the await that never returns: asyncio.all_tasks(), or PYTHONASYNCIODEBUG=1.",
    ),
    Absent.OWN_END: (
        "data of a pipe whose only writing end is its own: neither data nor end of file can arrive",
        "Close the writing end in the reading process before it reads, and in all others that do not write.",
    ),
    Absent.OWN_LIFE: (
        "a child to exit that exits only after this process does",
        "Wait for the pids that were started, not for whatever child there is: multiprocessing has helpers of its own.",
    ),
    Absent.OWN_ROOM: (
        "room in a queue that only it takes from",
        "A queue's consumer must never put into it: a handler of a log listener must not log there.",
    ),
}
"""What only the waiter itself could provide, in words, and the advice; by reason."""


def match(stuck: StuckSet) -> Match | None:
    """The root's wait ends in itself."""
    if stuck.root is None:
        return None
    return next((found for way in _WAYS if (found := way(stuck))), None)


def _is_alone(stuck: StuckSet) -> bool:
    """One thread waits for itself."""
    return stuck.ending is Ending.CYCLE and len(set(stuck.closed.root_blockers)) == 1


def _root(stuck: StuckSet) -> str:
    return stuck.job.thread_words(stuck.root or stuck.goal)


def _in_own_pool(stuck: StuckSet) -> Match | None:
    if not in_own_pool(stuck):
        return None
    return Match(
        summary=f"{stuck.role()}: a task waits{stuck.at()} for tasks of its own pool, all of whose workers are waiting too",
        evidence=(f"{_root(stuck)} runs a task and waits for a result", *stuck.edge_evidence()),
        advice=("Do not wait for a pool's results inside its tasks; give the inner tasks a separate pool.",),
    )


def _asks_own_library(stuck: StuckSet) -> Match | None:
    """Of a library about which nothing is known but that it runs the job's code."""
    edge = stuck.graph.node(stuck.root or stuck.goal).edge
    if not _is_alone(stuck) or edge is None or not edge.polled:
        return None
    advice = "Do not wait for a task inside a task: return its result instead, or add workers."
    if edge.holder_known:
        advice = "Do not nest `with` blocks of the same lock unless it is reentrant."
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {edge.words}",
        evidence=stuck.edge_evidence(),
        advice=(advice,),
    )


def _keeps_own_loop(stuck: StuckSet) -> Match | None:
    if keeper := loop_keeper(stuck):
        return _keeps_loop_from_others(stuck, keeper)
    if not keeps_own_loop(stuck):
        return None
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} inside its event loop for a result that only this loop could produce",
        evidence=(f"{_root(stuck)} waits in a call of its loop, which stands still meanwhile",),
        advice=("Do not wait inside a call of the loop: use await, or wait in another thread.",),
    )


def _in_own_callback(stuck: StuckSet) -> Match | None:
    if stuck.wait_state().kind not in RESULTS or not _is_alone(stuck):
        return None
    return Match(
        summary=f"{stuck.role()}: a callback waits{stuck.at()} for a result that only its own thread could deliver",
        evidence=(f"{_root(stuck)} runs the callbacks of the pool, one after the other",),
        advice=("Never wait for a pool in its own callback: submit there, and wait in another thread.",),
    )


def _what_is_its_own(stuck: StuckSet) -> Match | None:
    kind, alone = stuck.wait_state().kind, _is_alone(stuck)
    own = stuck.nobody.reason if stuck.nobody else Absent.OWN_LOCK if alone else stuck.outside and stuck.outside.reason
    if (
        own not in _OWN
        or (own is Absent.OWN_LOCK and kind not in LOCKS_OF_THREADS | {Wait.LOCK})
        or waiter_for_lock(stuck)
    ):
        return None
    what, advice = _OWN[own]
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {what}",
        evidence=stuck.edge_evidence() or (stuck.nobody.why if stuck.nobody else "",),
        advice=(advice,),
        certainty=Certainty.PROVED if alone else Certainty.LIKELY,
    )


def _locked_itself(stuck: StuckSet) -> Match | None:
    """The kernel tells of flock(2); of a library such as SQLite only its short sleeps between two attempts are seen."""
    if stuck.wait_state().kind is not Wait.FILE_LOCK or not _is_alone(stuck):
        return None
    waits = f"{stuck.role()} waits{stuck.at()} for {stuck.waits_for(stuck.root or stuck.goal)}"
    if stuck.closed.exact:
        return Match(
            summary=f"{waits}, which it already holds through another open file",
            evidence=stuck.edge_evidence(),
            advice=("Lock the file once, and pass the open file on: flock(2) keeps two opens of one process apart.",),
            certainty=Certainty.PROVED,
        )
    return Match(
        summary=f"{waits}, which another connection of its process has, and no other thread is left to release it",
        evidence=stuck.edge_evidence(),
        advice=("Commit before another connection of the same process writes, or let both use one connection.",),
        certainty=Certainty.LIKELY,
    )


def _keeps_loop_from_others(stuck: StuckSet, keeper: ThreadKey) -> Match:
    asking = dict.fromkeys(key[0] for key in stuck.closed.members if keeper in stuck.targets(key))
    names = stuck.job.names(asking)
    return Match(
        summary=f"{stuck.job.name(keeper[0])} waits{stuck.at(keeper)} for {stuck.waits_for(keeper)} inside its event "
        f"loop, and {names} {'wait' if len(asking) > 1 else 'waits'} for an answer of that loop",
        evidence=stuck.edge_evidence(),
        advice=(
            "Do not block in a coroutine or callback: await it, or use loop.run_in_executor for the blocking call.",
        ),
        certainty=Certainty.LIKELY,
    )


def _asks_itself(stuck: StuckSet) -> Match | None:
    """Both ends of the connection are its own."""
    pair = all(item.path in (None, "unix") for item in stuck.job.waits_on(stuck.root or stuck.goal))
    if stuck.wait_state().kind is not Wait.SOCKET or not _is_alone(stuck) or (_below_own_loop(stuck) and not pair):
        return None
    server = "an answer from itself: it is a server that handles one connection at a time"
    advice = "Give the server a thread for each connection (ThreadingMixIn), or call the function directly."
    if pair:
        server = "data over a socket whose other end it holds itself"
        advice = "Close the other process's end after the fork, or pass it on before waiting."
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {server}", evidence=stuck.edge_evidence(), advice=(advice,),
        certainty=Certainty.LIKELY,
    )  # fmt: skip


def _below_own_loop(stuck: StuckSet) -> bool:
    """It is a thread of a process whose main thread runs an event loop."""
    pid = (stuck.root or stuck.goal)[0]
    return stuck.root != (pid, pid) and stuck.job.wait_state((pid, pid)).kind is Wait.EVENT_LOOP


def _exhausts_threads(stuck: StuckSet) -> Match | None:
    """A thread that serves a request waits for what only another request could give, and no thread is left for that one."""
    waiter = stuck.root or stuck.goal
    if not _is_alone(stuck) or not _below_own_loop(stuck) or waiter in stuck.targets(waiter):
        return None
    asks = stuck.wait_state().kind is Wait.SOCKET
    what = "an answer from its own process" if asks else stuck.waits_for(waiter)
    own = "Call the function directly, make it a coroutine, or give the event loop more threads."
    kept = "Release what a request holds in the thread that took it, or have as many connections as threads."
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {what}, {'whose' if asks else 'and the'} event loop has no thread left "
        f"to serve {'it' if asks else 'those that could give it'}: all of its threads are in the same wait",
        evidence=stuck.edge_evidence(),
        advice=(own if asks else kept,),
        certainty=Certainty.LIKELY,
    )


def _joins_own_tasks(stuck: StuckSet) -> Match | None:
    """A consumer joins a queue while tasks that it took itself are unfinished."""
    found = own_tasks(stuck)
    if found is None:
        return None
    key, which = found.key, "the task" if found.count == 1 else f"the {found.count} tasks"
    return Match(
        summary=f"{stuck.job.name(key[0])} waits{stuck.at(key)} until all tasks of a queue are done, but it has not "
        f"finished {which} that it took itself",
        evidence=(found.evidence, *stuck.edge_evidence()),
        advice=(
            "Call task_done() before join(), or leave join() to the producers.",
            "An item that requests a flush is a task too, until task_done() is called for it.",
        ),
    )


def _awaits_itself(stuck: StuckSet) -> Match | None:
    """All tasks of an event loop wait for each other, or for something that none of them can provide."""
    tasks = stuck.job.of(EventLoops).stuck(stuck.root) if stuck.root and stuck.ending is Ending.CYCLE else ()
    task = first(tasks)
    if task is None or len(set(stuck.closed.root_blockers)) != 1:
        return None
    if lost := forsaken(tasks):
        return _left_locked(stuck, lost)
    circle = deadlocked(tasks)
    itself, others = "a task of its event loop waits for itself", "tasks of its event loop wait for each other"
    return Match(
        summary=f"{stuck.role()}: {others if len(circle) > 1 else itself}: {in_circle(circle)}"
        if circle
        else f"{stuck.role()}: {task.name or 'a task'} {does(task, tasks)}{stuck.at()}, and no other task of "
        "its event loop could provide that: the others are blocked too, or only sleep",
        evidence=stuck.edge_evidence(),
        advice=_AWAIT_ADVICE[min(len(circle), 2)],
        certainty=Certainty.LIKELY,
    )


def _left_locked(stuck: StuckSet, waiting: tuple[Task, ...]) -> Match:
    """A task that took a lock has ended without releasing it."""
    names = several([row.name or "a task" for row in waiting])
    return Match(
        summary=f"{stuck.role()}: {names} {verb(len(waiting), 'await')} a lock of asyncio{place_of(waiting[0])} "
        "that no task has any more: the one that took it has ended without releasing it",
        evidence=stuck.edge_evidence(),
        advice=(
            "Take locks with `async with`: it also releases them after an exception, an early return or a cancellation.",
        ),
        certainty=Certainty.LIKELY,
    )


_AWAIT_ADVICE = (
    (
        "Call task_done() for every item.",
        "Do not wait for a queue whose consumers, or producers, have returned: await those too.",
    ),
    (
        "Locks of event loops are not reentrant: take the lock in the outer function only, and have the inner one expect it.",
    ),
    ("Take asyncio locks in the same order everywhere.", "Do not await a task while holding a lock that it needs."),
)
"""By the number of tasks that wait for each other's locks or ends: none, one, several."""


_WAYS: tuple[Callable[[StuckSet], Match | None], ...] = (
    _joins_own_tasks, _awaits_itself, _in_own_pool, _asks_own_library, _keeps_own_loop, _in_own_callback, _locked_itself,
    _asks_itself, _exhausts_threads, _what_is_its_own,
)  # fmt: skip
