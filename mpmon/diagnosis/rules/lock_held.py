"""A lock is held by a live holder that is itself stuck or busy elsewhere.

What it looks like: processes or threads wait for a lock, or try again and again for the lock of a file (the filelock
package, SQLite); whoever holds it sleeps, waits for I/O or for a sign, or computes.
Why: slow work inside `with lock:`; a child that was forked there and so has the lock of the file too.
What to do: move the slow work out of the lock; give the lock a timeout.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.parts import waiter_for_lock
from mpmon.diagnosis.waits import Wait

CAUSE = "lock-held"
NEEDS = frozenset({"blocked", "semaphores", "locks"})

"""What a holder waits in by its own code: that nobody answers there matters less than the lock it keeps."""

_LOCKS = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.THREAD_LOCK})
_ENDS = frozenset({Wait.JOIN_PROCESS, Wait.CHILD, Wait.JOIN_THREAD, Wait.EXIT, Wait.LAUNCHER})
_SIGNS = frozenset({Wait.PROCESS_EVENT, Wait.CONDITION})
"""Waits for a sign, which whoever only waits for the end of others gives when all is over."""


def claim(knot: Knot) -> Claim | None:
    """The last edge before the root is a lock with a known holder."""
    if knot.ending is Ending.CYCLE:
        return _until_the_end(knot)
    waiter = waiter_for_lock(knot)
    if waiter is None:
        return None
    return Claim(
        summary=f"{knot.role()} holds the lock {knot.case.role(waiter[0]).name} waits for, and has been {knot.has_been()}",
        evidence=knot.edge_evidence(),
        advice=("Do the slow work outside of the lock, or take the lock with a timeout.",),
    )


def _until_the_end(knot: Knot) -> Claim | None:
    """The one lock of a cycle is held by somebody who waits for a sign of one who waits for the end of the others."""
    waiters = [key for key in knot.roots if knot.standing(key).kind in _LOCKS]
    holders = [key for key in knot.roots if knot.standing(key).kind in _SIGNS]
    enders = [key for key in knot.roots if knot.standing(key).kind in _ENDS]
    if not enders or len(waiters) != 1 or len(holders) != 1 or len(enders) + 2 != len(knot.roots):
        return None
    waiter, holder = waiters[0], holders[0]
    need = knot.graph.node(waiter).need
    if need is None or not need.held or holder not in need.targets:
        return None
    return Claim(
        summary=f"{_name(knot, holder)} holds the lock {_name(knot, waiter)} waits for, and waits for "
        f"{knot.standing(holder).words}{knot.at(holder)}, while {_name(knot, enders[0])} waits for {knot.waits_for(enders[0])}",
        evidence=knot.edge_evidence(),
        advice=("Give the lock back before waiting: a child that is forked inside of `with lock` has it too.",),
        certainty=Certainty.LIKELY,
    )


def _name(knot: Knot, key: ThreadKey) -> str:
    return knot.case.role(key[0]).name
