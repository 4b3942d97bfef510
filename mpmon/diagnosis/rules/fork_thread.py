"""The child of fork() waits for a thread or executor that exists in the parent only.

What it looks like: a forked process waits on a queue, an event or a future; no other Python thread is there to answer.
Why: fork copies the queue, the executor and the event, but not the threads that serve them.
What to do: create executors and helper threads in the child (`worker_init_fn`), or start with `spawn`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.needs.missing import deliverer_in_parent

CAUSE = "fork-thread"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """A forked child waits for a thread, and has none."""
    if knot.nobody is None or knot.nobody.reason is not Absent.LEFT_IN_PARENT or knot.root is None:
        return None
    hands_over = deliverer_in_parent(knot.case, knot.root)
    return Claim(
        summary=f"{knot.role()}, the child of a fork, waits for {knot.standing().words}{knot.at()}, "
        "but the thread that would answer exists in its parent only",
        evidence=(f"pid {knot.root[0]} has one Python thread", *_words(knot, hands_over)),
        advice=(
            "Create threads and executors in the child, after the fork.",
            'Or start it with "spawn" or "forkserver".',
        ),
        certainty=Certainty.LIKELY,
    )


def _words(knot: Knot, key: ThreadKey | None) -> tuple[str, ...]:
    if key is None:
        return ()
    name = knot.case.thread_name(key)
    return (f"the pool's results go through thread {name} of pid {key[0]}, from which it was forked",)
