"""A thread waits for itself: a lock that is not reentrant, or a result its own pool would have to compute.

What it looks like: one thread takes a lock it holds already; or it opens a file again and waits for the flock it has by the
first open; or a task of an executor waits for tasks of the same executor, whose workers are all busy waiting; or a server
that serves one connection at a time asks itself; or a reader of a pipe has its only writing end itself; or a consumer joins
a `JoinableQueue` before it has called `task_done` for the item it is at; or all tasks of an event loop wait for each other,
or for a queue that none of them serves, while a heartbeat goes on beside them.
What to do: use `RLock`, or do not call back under the lock; never wait for a pool's results inside of its tasks; leave
`join` to those who put.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.loops import does, first
from mpmon.diagnosis.parts import keeps_own_loop, waiter_for_lock
from mpmon.diagnosis.undone import own_tasks
from mpmon.diagnosis.waits import Context, Wait

CAUSE = "self-deadlock"
NEEDS = frozenset({"stacks", "blocked", "locks"})

_RESULTS = frozenset({Wait.FUTURE_RESULT, Wait.POOL_RESULT})
_POOLS = frozenset({Context.EXECUTOR_THREAD, Context.POOL_WORKER})
_LOCKS = frozenset({Wait.FUTEX, Wait.THREAD_LOCK, Wait.LOCK})

_OWN = {
    Absent.OWN_LOCK: (
        "a lock that only it can hold itself",
        "Use RLock, or do not call code that takes the lock while holding it.",
    ),
    Absent.OWN_END: (
        "{words} of a pipe whose only writing end is its own: neither that nor an end of file can come",
        "Close the writing end in the process that reads, before it reads, and in all others that do not write.",
    ),
    Absent.OWN_ROOM: (
        "room in a queue from which only it itself takes anything out",
        "Let what takes out of a queue never put into it: a handler of a log's listener must not log there.",
    ),
}
"""What only the one who waits could bring: what it is, and what to do."""


def claim(knot: Knot) -> Claim | None:
    """The root's wait ends in itself."""
    if knot.root is None:
        return None
    if found := _joins_own_tasks(knot) or _awaits_itself(knot):
        return found
    kind = knot.standing().kind
    at = knot.at()
    left = knot.nobody is not None and knot.nobody.reason is Absent.LEFT_IN_PARENT
    if kind in _RESULTS and knot.context() in _POOLS and not left:
        return Claim(
            summary=f"{knot.role()}: a task waits{at} for tasks of its own pool, whose workers all wait like it",
            evidence=(f"thread {knot.case.thread_name(knot.root)} runs a task and waits for a result",),
            advice=("Do not wait for a pool's results inside of its tasks; give the inner tasks a pool of their own.",),
        )
    alone = knot.ending is Ending.CYCLE and len(set(knot.closed.roots)) == 1
    need = knot.graph.node(knot.root).need
    if alone and need and need.polled:
        return Claim(
            summary=f"{knot.role()} waits{at} for {need.words}",
            evidence=knot.edge_evidence(),
            advice=("Do not wait for a task inside of a task: return what it would give, or have more workers.",),
        )
    if keeps_own_loop(knot):
        return Claim(
            summary=f"{knot.role()} waits{at} inside of its event loop for a result that only this loop could bring",
            evidence=(f"thread {knot.case.thread_name(knot.root)} waits in a callback of BaseEventLoop._run_once",),
            advice=("Use await instead of result() inside of the loop, or wait in another thread.",),
        )
    if kind in _RESULTS and alone:
        return Claim(
            summary=f"{knot.role()}: a callback waits{at} for a result that only its own thread could hand over",
            evidence=(
                f"thread {knot.case.thread_name(knot.root)} runs the callbacks of the pool, one after the other",
            ),
            advice=("Never wait for a pool in a callback of it: submit there, and wait in another thread.",),
        )
    if kind is Wait.EVENT_LOOP and knot.ending is Ending.OUTSIDE and not _sockets(knot):
        return Claim(
            summary=f"the event loop of {knot.role()} waits{at} for a future that nobody completes: it watches no descriptor "
            "but its own, and no thread or child of the process runs",
            evidence=("epoll without a time limit, on the loop's own wake-up socket only",),
            advice=("Look for the await that never returns: asyncio.all_tasks(), or PYTHONASYNCIODEBUG=1.",),
        )
    if kind is Wait.FILE_LOCK and alone:
        return Claim(
            summary=f"{knot.role()} waits{at} for {knot.waits_for(knot.root)}, which it has itself by another open file",
            evidence=knot.edge_evidence(),
            advice=("Lock the file once, and hand the open file on: flock(2) keeps two opens of one process apart.",),
            certainty=Certainty.PROVED,
        )
    if kind is Wait.SOCKET and alone:
        return Claim(
            summary=f"{knot.role()} waits{at} for an answer of the server that it is itself, one connection after the other",
            evidence=knot.edge_evidence(),
            advice=(
                "Let the server have a thread for each connection (ThreadingMixIn), or call the function directly.",
            ),
            certainty=Certainty.LIKELY,
        )
    own = knot.nobody.reason if knot.nobody else Absent.OWN_LOCK if alone else None
    if own not in _OWN or (own is Absent.OWN_LOCK and kind not in _LOCKS) or waiter_for_lock(knot):
        return None
    what, advice = _OWN[own]
    return Claim(
        summary=f"{knot.role()} waits{at} for {what.format(words=knot.standing().words)}",
        evidence=knot.edge_evidence() or (knot.nobody.why if knot.nobody else "",),
        advice=(advice,),
        certainty=Certainty.PROVED if alone else Certainty.LIKELY,
    )


def _joins_own_tasks(knot: Knot) -> Claim | None:
    """A consumer waits until its own task is done."""
    found = own_tasks(knot)
    if found is None:
        return None
    key, which = found.key, "the task" if found.count == 1 else f"the {found.count} tasks"
    return Claim(
        summary=f"{knot.case.role(key[0]).name} waits{knot.at(key)} until all tasks of a queue are done, and what is not done "
        f"is {which} that it took itself",
        evidence=(found.evidence, *knot.edge_evidence()),
        advice=(
            "Call task_done() before join(), or leave join() to those who put.",
            "An item that asks for a flush is a task too, until task_done() was called for it.",
        ),
    )


def _awaits_itself(knot: Knot) -> Claim | None:
    """All tasks of an event loop wait for each other, or for what none of them can do."""
    tasks = knot.case.stuck_tasks(knot.root) if knot.root and knot.ending is Ending.CYCLE else ()
    task = first(tasks)
    if task is None or len(set(knot.closed.roots)) != 1:
        return None
    return Claim(
        summary=f"{knot.role()}: {task.name or 'a task'} {does(task, tasks)}{knot.at()}, and no other task of "
        "its event loop could bring that: those that are left wait like it, or only sleep",
        evidence=knot.edge_evidence(),
        advice=(
            "Take locks of asyncio in one order everywhere, and call task_done() for every item.",
            "Let nobody wait for a queue whose consumers, or producers, have returned: await those too.",
        ),
        certainty=Certainty.LIKELY,
    )


def _sockets(knot: Knot) -> bool:
    """Whether the loop watches more than its own wake-up socket (asyncio/selector_events.py)."""
    blocked = knot.blocked()
    return blocked is not None and len(blocked.waits_on) > 1
