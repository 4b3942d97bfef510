"""A process is joined before the queue it writes to is drained.

What it looks like: the parent is in `Process.join`; the child has returned from its target and waits for the feeder thread of
its queue, which is blocked writing to a full pipe that only the parent reads.
Why: a process with items in a `multiprocessing.Queue` does not end before they are written.
What to do: `get` everything first, then `join`; or `queue.cancel_join_thread()` if losing the items is acceptable.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.crossed_waits import undrained
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "queue-join"
NEEDS = frozenset({"stacks", "blocked", "handles"})


def match(stuck: StuckSet) -> Match | None:
    """A thread joins a process whose feeder thread cannot write."""
    found = undrained(stuck)
    if found is None:
        return None
    feeder, joiner = found
    names = stuck.job.name(joiner[0]), stuck.job.name(feeder[0])
    edge = stuck.graph.node(feeder).edge
    return Match(
        summary=f"{names[0]} waits{stuck.at(joiner)} for {stuck.waits_for(joiner)}, but has not drained the "
        f"queue that {names[1]} still writes to",
        evidence=(f"the feeder thread of {names[1]} is blocked: {edge.evidence if edge else 'its pipe is full'}",),
        advice=(
            "Before Process.join(), get() everything that was put into the queue.",
            "Or queue.cancel_join_thread() in the producer, if losing the items is acceptable.",
        ),
        certainty=Certainty.PROVED,
    )
