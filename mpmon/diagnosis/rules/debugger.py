"""A breakpoint or prompt waits for somebody to type, where nobody can.

What it looks like: a thread stands in pdb, `breakpoint()` or `input()`, reading a terminal, a pipe or /dev/null that
nobody writes to; the others wait for this process.
Why: a breakpoint left in the code; in a worker or a rank standard input is not the terminal.
What to do: take the breakpoint out, or run that part with `num_workers=0` or one rank.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "debugger"


def claim(knot: Knot) -> Claim | None:
    """The root stands in a debugger's prompt."""
    if knot.standing().kind is not Wait.DEBUGGER:
        return None
    return Claim(
        summary=f"{knot.role()} is at a debugger's prompt{_at(knot)} and waits for somebody to type",
        evidence=(f"{knot.role()} is in {knot.standing().words} since {knot.for_how_long()}",),
        advice=("Remove the breakpoint() or input(), or run this part alone (num_workers=0, one rank).",),
    )


def _at(knot: Knot) -> str:
    place = knot.place()
    return f" at {place}" if place else ""
