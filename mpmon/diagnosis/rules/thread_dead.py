"""A helper thread (prefetch, writer, result handler) died; others in the process wait for it.

What it looks like: the main thread waits on a `queue.Queue` or an event, and no other Python thread of the process is
left that could put or set anything.
Why: an exception ended the thread; its traceback went to standard error and nobody looked.
What to do: search the log for `Exception in thread`; hand exceptions over through the queue; use `get(timeout=…)` and
check `thread.is_alive()`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "thread-dead"
NEEDS = frozenset({"stacks"})

_RESULTS = frozenset({Wait.POOL_RESULT, Wait.FUTURE_RESULT})
_FROM_THREADS = frozenset({Wait.THREAD_QUEUE, Wait.CONDITION})


def claim(knot: Knot) -> Claim | None:
    """A wait between threads, with nobody left at the other end."""
    blamed = set(knot.nobody.blame) - {key[0] for key in knot.roots} if knot.nobody else set[int]()
    handed = knot.standing().kind in _RESULTS and knot.nobody is not None and not blamed
    if knot.ending is not Ending.NOBODY or not (knot.standing().kind in _FROM_THREADS or handed):
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
