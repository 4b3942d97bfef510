"""An item was put but can never arrive.

What it looks like: the consumer waits, the queue is empty, and all producers are idle: each believes it has delivered.
Or: processes wait for an event or condition, and all who could set it wait as well or have ended.
Why: the queue's feeder thread failed after `put` had returned (an object that cannot be pickled, no descriptors left),
printed a traceback to standard error and dropped the item; or the notification came before anybody waited for it.
What to do: search the log for `QueueFeederThread`; make the item picklable; raise the descriptor limit or use
`torch.multiprocessing.set_sharing_strategy("file_system")`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.parts import kept_until_end
from mpmon.diagnosis.responsibility import absent_party
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "item-lost"
NEEDS = frozenset({"stacks", "blocked", "handles"})


_FOR_THEM = frozenset({Wait.JOIN_PROCESS, Wait.CHILD, Wait.LAUNCHER, Wait.EXIT})
"""Waits of those who only wait for the others to end."""


def claim(knot: Knot) -> Claim | None:
    """Somebody waits for a servant, and all servants are idle; or for an event that only waiters could set."""
    if knot.ending in (Ending.OPEN, Ending.CYCLE):
        return _never_set(knot)
    if knot.nobody is None or knot.nobody.reason is not Absent.ITEM_LOST:
        return None
    return Claim(
        summary=f"{knot.role()} waits for {knot.standing().words}, but {knot.nobody.why}",
        evidence=(knot.nobody.why,),
        advice=(
            "Search the job's standard error for QueueFeederThread: the item could not be pickled or sent.",
            "Raise the limit of open files (ulimit -n), or torch.multiprocessing.set_sharing_strategy('file_system').",
        ),
    )


def _never_set(knot: Knot) -> Claim | None:
    """An event, condition or barrier between processes: everybody alive who has it waits as well."""
    if absent_party(knot) or kept_until_end(knot):
        return None
    waiting = knot.members_in(Wait.PROCESS_EVENT)
    others = [key for key in knot.closed.members if key not in waiting]
    if not waiting or not all(
        knot.standing(key).kind in _FOR_THEM or set(knot.targets(key)) <= {*waiting} for key in others
    ):
        return None
    names = several([knot.case.role(key[0]).name for key in waiting])
    return Claim(
        summary=f"{names} {'waits' if len(waiting) == 1 else 'wait'} for {knot.standing(waiting[0]).words}"
        f"{knot.at(waiting[0])} that nobody sets any more: all who have it wait as well, or have ended",
        evidence=knot.edge_evidence(),
        advice=(
            "Look who should have set or notified it: it did so before anybody waited, or ended without.",
            "Test the condition in a loop under its lock (wait_for), and give the wait a timeout.",
        ),
        certainty=Certainty.LIKELY,
    )
