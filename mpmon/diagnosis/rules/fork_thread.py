"""A forked child waits for a thread or executor that exists only in the parent.

What it looks like: a forked process waits on a queue, an event or a future, and has no other Python thread to answer it.
Why: fork copies the queue, the executor and the event, but not the threads that serve them.
What to do: create executors and helper threads in the child (`worker_init_fn`), or start with `spawn`.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.missing import deliverer_in_parent
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "fork-thread"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """A forked child waits for another of its threads, and has none."""
    if stuck.nobody is None or stuck.nobody.reason is not Absent.LEFT_IN_PARENT or stuck.root is None:
        return None
    hands_over = deliverer_in_parent(stuck.job, stuck.root)
    return Match(
        summary=f"{stuck.role()}, the child of a fork, waits{stuck.at()} for {stuck.wait_state().words}, "
        "but the thread that would answer exists only in its parent",
        evidence=(f"pid {stuck.root[0]} has one Python thread", stuck.nobody.why, *_words(stuck, hands_over)),
        advice=(
            "Create threads and executors in the child, after the fork.",
            'Or start it with "spawn" or "forkserver".',
        ),
        certainty=Certainty.LIKELY,
    )


def _words(stuck: StuckSet, key: ThreadKey | None) -> tuple[str, ...]:
    if key is None:
        return ()
    name = stuck.job.thread_name(key)
    return (f"the pool's results go through thread {name} of its parent, pid {key[0]}",)
