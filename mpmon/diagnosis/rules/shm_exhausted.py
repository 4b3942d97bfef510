"""Something that processes share through the kernel has run out: a server has as many files open as it may.

What it looks like: clients wait to be accepted or for an answer, and the server, which retries or idles, has as many descriptors
as its limit allows, so that accept(2) fails.
Why: connections, pipes or files that are never closed; a limit that is too low for as many workers.
What to do: close what is over; raise the limit (`ulimit -n`).
"""

from __future__ import annotations

from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "shm-exhausted"
NEEDS = frozenset({"blocked", "handles"})

_ADVICE = (
    "Close connections that are over: /proc/PID/fd lists those that the server still has.",
    "Raise its limit of open files (ulimit -n).",
)


def match(stuck: StuckSet) -> Match | None:
    """The root waits to be accepted by a server that has no descriptor left."""
    if stuck.nobody is None or stuck.root is None or stuck.nobody.reason is not Absent.NO_DESCRIPTORS:
        return None
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {stuck.waits_for(stuck.root)}, but {stuck.nobody.why}",
        evidence=stuck.edge_evidence(),
        advice=_ADVICE,
    )
