"""A helper thread (prefetch, writer, result handler) died; others in the process wait for it.

What it looks like: the main thread waits on a `queue.Queue` or an event, and no other Python thread of the process is left
that could put or set anything.  Or the dead thread served one connection of a server: the client waits for an answer, the
connection is open, and no remaining thread of the server serves it.
Why: an exception ended the thread; its traceback went to standard error and went unnoticed.
What to do: search the log for `Exception in thread`; pass exceptions on through the queue; use `get(timeout=…)` and check
`thread.is_alive()`.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.crossed_waits import forsaken
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.responsibility.members import waits_for_room
from mpmon.diagnosis.responsibility.servers import left_connection
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "thread-dead"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """A wait between threads, with nobody left at the other end, or for an answer over a connection that nobody serves."""
    if found := left_connection(stuck):
        return _left(stuck, *found)
    if stuck.context() is not None:
        # A worker inside a task: it does not return, and whether it ever had such a thread is not known.
        return None
    if alike := forsaken(stuck):
        names = several([stuck.job.thread_name(key) for key in alike])
        return _died(stuck, f"threads {names} of {stuck.job.name(alike[0][0])} wait")
    if stuck.nobody is None or stuck.nobody.reason is not Absent.THREAD_ENDED:
        return None
    return _died(stuck, f"{stuck.role()} waits")


def _died(stuck: StuckSet, who: str) -> Match:
    blame = [stuck.job.role(pid).name for pid in stuck.nobody.blame] if stuck.nobody else []
    where = several(blame) or "the process"
    could = "take it" if stuck.root and waits_for_room(stuck, stuck.root) else "answer"
    return Match(
        summary=f"{who}{stuck.at()} for {stuck.wait_state().words}, but no thread is left in {where} that could {could}",
        evidence=stuck.edge_evidence() or ("every other Python thread of the process only waits for requests",),
        advice=(
            "Search the job's standard error for 'Exception in thread': a helper thread has died, or never was there.",
            "Pass exceptions on through the queue, or use get(timeout=…) and check thread.is_alive().",
        ),
        certainty=Certainty.LIKELY,
    )


def _left(stuck: StuckSet, client: ThreadKey, server: ThreadKey, others: list[ThreadKey]) -> Match:
    name = stuck.job.role(client[0]).name
    rest = (
        f"{stuck.job.thread_name(server)} waits for new ones, {several([stuck.job.thread_name(key) for key in others])}"
    )
    return Match(
        summary=f"{name} (pid {client[0]}) waits{stuck.at(client)} for an answer over a connection that no thread of "
        f"{stuck.job.name(server[0])} serves",
        evidence=(
            f"pid {server[0]} has its other end open, but none of its threads serves it: {rest} for other connections",
            *stuck.edge_evidence(),
        ),
        advice=(
            f"Search the standard error of pid {server[0]} for 'Exception in thread': the thread of that connection has died.",
            "Close the connection in a finally block, so that the client notices; give recv a timeout.",
        ),
        certainty=Certainty.LIKELY,
    )
