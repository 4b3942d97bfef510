"""One rank is elsewhere (loading, checkpoint, I/O), and the others wait for it in a collective.

What it looks like: all ranks but one stand in a collective; that one sleeps, writes a file or computes.
What to do: look at its line; bound its I/O; let only that rank's peers wait that must.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "straggler"


def claim(knot: Knot) -> Claim | None:
    """The root is a rank outside of the collective the others are in."""
    if knot.ending not in (Ending.LEAF, Ending.OUTSIDE) or knot.root is None or knot.kind() != "rank":
        return None
    waiting = [key for key in knot.case.blocked if key[0] == key[1] and knot.standing(key).kind is Wait.COLLECTIVE]
    others = [key for key in waiting if key[0] != knot.root[0] and knot.case.role(key[0]).kind == "rank"]
    if not others or knot.standing().kind is Wait.COLLECTIVE:
        return None
    words = knot.standing(others[0]).words
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}, while {len(others)} other rank{'s' if len(others) > 1 else ''} "
        f"wait for it in {words}",
        evidence=(f"{knot.role()} is the only one outside of {words}", *knot.edge_evidence()),
        advice=("Look at that line of that rank; the others are right to wait.",),
    )
