"""The child of fork() waits for a thread or executor that exists in the parent only.

What it looks like: a forked process waits on a queue, an event or a future; no other Python thread is there to answer.
Why: fork copies the queue, the executor and the event, but not the threads that serve them.
What to do: create executors and helper threads in the child (`worker_init_fn`), or start with `spawn`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "fork-thread"
NEEDS = frozenset({"stacks"})

_FROM_THREADS = frozenset({Wait.THREAD_QUEUE, Wait.CONDITION, Wait.FUTURE_RESULT, Wait.JOIN_THREAD})


def claim(knot: Knot) -> Claim | None:
    """A forked child waits for a thread, and has none."""
    if knot.ending is not Ending.NOBODY or knot.root is None or not knot.case.is_forked(knot.root[0]):
        return None
    if knot.standing().kind not in _FROM_THREADS or len(knot.case.threads(knot.root[0])) > 1:
        return None
    parent = knot.case.role(knot.root[0]).parent
    others = [key for key in knot.case.threads(parent or 0) if key[0] != key[1]]
    if all(knot.case.standing(key).kind is Wait.SERVICE for key in others):
        return None
    return Claim(
        summary=f"{knot.role()}, the child of a fork, waits for {knot.standing().words}{knot.at()}, "
        "but the thread that would answer exists in its parent only",
        evidence=(f"pid {knot.root[0]} has one Python thread",),
        advice=(
            "Create threads and executors in the child, after the fork.",
            'Or start it with "spawn" or "forkserver".',
        ),
        certainty=Certainty.LIKELY,
    )
