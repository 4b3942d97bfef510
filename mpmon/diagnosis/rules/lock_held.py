"""A lock is held by a live holder that is itself stuck or busy elsewhere.

What it looks like: processes or threads wait for a lock; whoever holds it sleeps, waits for I/O or computes.
Why: slow work inside `with lock:`.
What to do: move the slow work out of the lock; give the lock a timeout.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "lock-held"
NEEDS = frozenset({"blocked", "semaphores", "locks"})

_OWN_WAITS = frozenset({Wait.PIPE_READ, Wait.PIPE_WRITE, Wait.SOCKET, Wait.POLL})
"""What a holder waits in by its own code: that nobody answers there matters less than the lock it keeps."""


def claim(knot: Knot) -> Claim | None:
    """The last edge before the root is a lock with a known holder."""
    path = knot.closed.path
    alone = knot.ending is Ending.NOBODY and knot.standing().kind in _OWN_WAITS
    if not (knot.ending is Ending.LEAF or alone) or len(path) < 2:
        return None
    waiter = path[-2]
    need = knot.graph.node(waiter).need
    if need is None or not need.held:
        return None
    return Claim(
        summary=f"{knot.role()} holds the lock {knot.case.role(waiter[0]).name} waits for, and has been {knot.has_been()}",
        evidence=knot.edge_evidence(),
        advice=("Do the slow work outside of the lock, or take the lock with a timeout.",),
    )
