"""An item, notification or wake-up was lost before its receiver could see it.

What it looks like: the consumer waits, the queue is empty, and all producers are idle: each considers its items delivered.
Or: processes wait for an event or condition, and all that could set it are waiting too or have ended. Or: a program waits for
a task of Ray, Dask or the like, and all workers have been idle for a while. Or: an event loop sleeps although one of its
tasks could continue.
Why: the queue's feeder thread failed after `put` had returned (an object that cannot be pickled, no descriptors left),
printed a traceback to standard error and dropped the item; or the notification came before anyone waited for it; or the task
requests CPUs, GPUs or a worker that nobody releases.
What to do: search the log for `QueueFeederThread`; make the item picklable; raise the descriptor limit or use
`torch.multiprocessing.set_sharing_strategy("file_system")`.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.signs import has_sign
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.responsibility.parties import absent_party
from mpmon.diagnosis.responsibility.tasks import unfinished_tasks
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, EXCHANGES, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.dropped_items import dropped
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "item-lost"
NEEDS = frozenset({"stacks", "blocked", "handles"})


_ADVICE = {
    Absent.ITEM_LOST: (
        "Search the job's standard error for QueueFeederThread: the item could not be pickled or sent.",
        "Raise the limit of open files (ulimit -n), or torch.multiprocessing.set_sharing_strategy('file_system').",
    ),
    Absent.RESULT_LOST: (
        "Look at the callback of that task: Pool drops a result whose callback raises KeyError, and says nothing.",
        "Search the job's standard error for a traceback of one of the pool's threads.",
    ),
    Absent.NOT_SENT: (
        "If a library replaces threads by tasks of its own (gevent.monkey.patch_all), let it leave threads alone (thread=False).",
        "Or use SimpleQueue or a Pipe, which send in the calling thread.",
    ),
    Absent.ANSWER_TAKEN: (
        "Give each process a queue of its own for the answers, or let it put back what is not meant for it before it ends.",
    ),
    Absent.NOT_SHARED: (
        "Pass the event to the process as an argument: with spawn, each child makes a module-level event anew.",
    ),
    Absent.NOT_WOKEN: (
        "From other threads, use loop.call_soon_threadsafe(future.set_result, …) and asyncio.run_coroutine_threadsafe.",
        "PYTHONASYNCIODEBUG=1 turns a direct call, which does not wake the loop, into an error.",
    ),
    Absent.NOT_BEGUN: (
        "Check which CPUs, GPUs or other resources the task requests, and who holds them: actors keep theirs until they end.",
        "Check whether its result is stored at all, and whether the workers read the queue it was sent to.",
    ),
}


def match(stuck: StuckSet) -> Match | None:
    """A thread waits for producers or workers, all of which are idle; or for an event that only waiters could set."""
    if lost := dropped(stuck):
        return _not_pickled(stuck, lost)
    if stuck.ending in (Ending.OPEN, Ending.CYCLE):
        return _never_set(stuck)
    if stuck.nobody is None or stuck.root is None or stuck.nobody.reason not in _ADVICE:
        return None
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {stuck.waits_for(stuck.root)}, but {stuck.nobody.why}",
        evidence=stuck.edge_evidence() or (stuck.nobody.why,),
        advice=_ADVICE[stuck.nobody.reason],
    )


def _not_pickled(stuck: StuckSet, lost: dict[ThreadKey, ThreadKey]) -> Match:
    """The feeder threads of queues dropped what was put."""
    senders, readers = stuck.job.names(lost), stuck.job.names(lost.values())
    items = "the last item" if len(lost) == 1 else "the last items"
    return Match(
        summary=f"{items} that {senders} put into a queue could not be pickled, and so never left: {readers} "
        f"{'waits' if len(set(lost.values())) == 1 else 'wait'} for an item{stuck.at(next(iter(lost.values())))}",
        evidence=(*(_feeds(pid) for pid, _ in lost), *stuck.edge_evidence()),
        advice=_ADVICE[Absent.ITEM_LOST], certainty=Certainty.LIKELY, tells_of=frozenset(lost.values()),
    )  # fmt: skip


def _feeds(pid: int) -> str:
    return f"the feeder thread of pid {pid} is idle, but the variable obj of its Queue._feed is not bound to the bytes of an item"


def _never_set(stuck: StuckSet) -> Match | None:
    """An event, condition or barrier between processes: every live process that shares it is waiting too."""
    if absent_party(stuck) or has_sign(stuck) or unfinished_tasks(stuck):
        return None
    waiting = stuck.members_in(Wait.PROCESS_EVENT)
    others = [key for key in stuck.closed.members if key not in waiting]
    if not waiting or not all(
        stuck.wait_state(key).kind in ENDS_OF_PROCESSES or set(stuck.targets(key)) <= {*waiting} for key in others
    ):
        return None
    if any(stuck.wait_state(key).kind in EXCHANGES for key in stuck.at_end) or _each_for_another(stuck):
        # It would be set once a message was sent or received, or once one of them went on: a mutual wait, not a lost item.
        return None
    names = stuck.job.names(waiting)
    waits = f"{names} {'waits' if len(waiting) == 1 else 'wait'} for {stuck.wait_state(waiting[0]).words}{stuck.at(waiting[0])}"
    at_barrier = all(in_barrier(stuck.job.stacks.get(key)) for key in waiting)
    return Match(
        summary=f"{waits}, but every other process that shares it waits for them or has ended: it is made for more parties "
        "than there are"
        if at_barrier
        else f"{waits} that nobody can set any more: every process that shares it is waiting too or has ended",
        evidence=stuck.edge_evidence(),
        advice=_OF_BARRIER if at_barrier else _OF_EVENT,
        certainty=Certainty.LIKELY,
    )


def _each_for_another(stuck: StuckSet) -> bool:
    """Several processes, each of which waits for the sign of exactly one other."""
    return stuck.ending is Ending.CYCLE and len({pid for pid, _ in stuck.at_end}) > 1


_OF_BARRIER = (
    "Compare the number of parties with the processes that really start: a pool may start fewer workers than its size.",
    "Call Barrier.abort() when a party leaves, and give wait() a timeout.",
)

_OF_EVENT = (
    "Find out who should have set or notified it: that happened before anyone waited, or never.",
    "Test the condition in a loop under its lock (wait_for), and give the wait a timeout.",
)
