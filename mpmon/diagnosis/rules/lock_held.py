"""A lock is held by a live holder that is itself stuck or busy elsewhere.

What it looks like: processes or threads wait for a lock, or try again and again for the lock of a file (the filelock
package, SQLite); whoever holds it sleeps, waits for I/O or for a sign, or computes.
Why: slow work inside `with lock:`; a child that was forked there and so has the lock of the file too.
What to do: move the slow work out of the lock; give the lock a timeout.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.parts import kept_until_end, waiter_for_lock

CAUSE = "lock-held"
NEEDS = frozenset({"blocked", "semaphores", "locks"})


def claim(knot: Knot) -> Claim | None:
    """The last edge before the root is a lock with a known holder."""
    if found := kept_until_end(knot):
        return _until_the_end(knot, *found)
    waiter = waiter_for_lock(knot)
    if waiter is None:
        return None
    return Claim(
        summary=f"{knot.role()} holds the lock {knot.case.role(waiter[0]).name} waits for, and has been {knot.has_been()}",
        evidence=knot.edge_evidence(),
        advice=("Do the slow work outside of the lock, or take the lock with a timeout.",),
    )


def _until_the_end(knot: Knot, waiter: ThreadKey, holder: ThreadKey, ender: ThreadKey) -> Claim:
    """The holder waits for a sign of one who waits for the end of the others."""
    return Claim(
        summary=f"{_name(knot, holder)} holds the lock {_name(knot, waiter)} waits for, and waits for "
        f"{knot.standing(holder).words}{knot.at(holder)}, while {_name(knot, ender)} waits for {knot.waits_for(ender)}",
        evidence=knot.edge_evidence(),
        advice=("Give the lock back before waiting: a child that is forked inside of `with lock` has it too.",),
        certainty=Certainty.LIKELY,
    )


def _name(knot: Knot, key: ThreadKey) -> str:
    return knot.case.role(key[0]).name
