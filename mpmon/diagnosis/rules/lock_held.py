"""A lock is held by a live holder that is itself stuck or busy elsewhere.

What it looks like: processes or threads wait for a lock; whoever holds it sleeps, waits for I/O or computes.
Why: slow work inside `with lock:`.
What to do: move the slow work out of the lock; give the lock a timeout.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "lock-held"

_LOCKS = frozenset({Wait.FILE_LOCK, Wait.LOCK, Wait.MUTEX})


def claim(knot: Knot) -> Claim | None:
    """The last edge before the root is a lock with a known holder."""
    path = knot.closed.path
    if knot.ending is not Ending.LEAF or len(path) < 2:
        return None
    waiter = path[-2]
    need = knot.graph.node(waiter).need
    if knot.standing(waiter).kind not in _LOCKS or need is None or not need.exact:
        return None
    return Claim(
        summary=f"{knot.role()} holds the lock {knot.case.role(waiter[0]).name} waits for, and has been {knot.has_been()}",
        evidence=knot.edge_evidence(),
        advice=("Do the slow work outside of the lock, or take the lock with a timeout.",),
    )
