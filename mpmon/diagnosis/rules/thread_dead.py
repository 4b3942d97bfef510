"""A helper thread (prefetch, writer, result handler) died; others in the process wait for it.

What it looks like: the main thread waits on a `queue.Queue` or an event, and no other Python thread of the process is
left that could put or set anything.  Or a server's thread for one connection: its client waits for an answer, the
connection is open, and each thread of the server serves another one.
Why: an exception ended the thread; its traceback went to standard error and nobody looked.
What to do: search the log for `Exception in thread`; hand exceptions over through the queue; use `get(timeout=…)` and
check `thread.is_alive()`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.responsibility import left_connection
from mpmon.diagnosis.words import several

CAUSE = "thread-dead"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """A wait between threads, with nobody left at the other end, or for an answer over a connection that nobody serves."""
    if found := left_connection(knot):
        return _left(knot, *found)
    if knot.nobody is None or knot.nobody.reason is not Absent.THREAD_ENDED:
        return None
    if knot.context() is not None:
        # A worker inside a task: whether it ever had such a thread is not known, that it does not return is.
        return None
    return Claim(
        summary=f"{knot.role()} waits for {knot.standing().words}{knot.at()}, "
        "but no thread is left in the process that could answer",
        evidence=knot.edge_evidence() or ("no other Python thread of the process does anything but wait for requests",),
        advice=(
            "Search the job's standard error for 'Exception in thread': the helper thread has died.",
            "Hand exceptions over through the queue, or use get(timeout=…) and check thread.is_alive().",
        ),
        certainty=Certainty.LIKELY,
    )


def _left(knot: Knot, client: ThreadKey, server: ThreadKey, others: list[ThreadKey]) -> Claim:
    name = knot.case.role(client[0]).name
    rest = (
        f"{knot.case.thread_name(server)} waits for new ones, {several([knot.case.thread_name(key) for key in others])}"
    )
    return Claim(
        summary=f"{name} (pid {client[0]}) waits{knot.at(client)} for an answer over a connection that no thread of "
        f"{knot.case.role(server[0]).name} serves",
        evidence=(
            f"pid {server[0]} has its other end open, and no thread that is in it: {rest} for what comes over others",
            *knot.edge_evidence(),
        ),
        advice=(
            f"Search the standard error of pid {server[0]} for 'Exception in thread': the thread of that connection has died.",
            "Close the connection in a finally, so that the client learns of it; give recv a timeout.",
        ),
        certainty=Certainty.LIKELY,
    )
