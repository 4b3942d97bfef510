"""The process that everybody serves does not return from its own code; its workers idle by right.

What it looks like: workers wait for work, nobody waits for them; the main thread spins or sleeps in the user's code, for
a DataLoader often in the sampler.
Why: a loop that looks for ever for a sample that fits, a poll for a file or flag that never comes.
What to do: look at the main thread's line; bound the loop.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.waits import Context

CAUSE = "main-stuck"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """The chain ends in the main thread's own code."""
    if knot.ending not in (Ending.LEAF, Ending.OUTSIDE, Ending.OPEN):
        return None
    sampler = knot.context() is Context.SAMPLER
    where = " (in the DataLoader's sampler)" if sampler else ""
    spins = knot.motion() is Motion.SPINNING
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}{where}",
        evidence=(
            knot.burning() if spins else f"{knot.role()} stands at the same line",
            *knot.edge_evidence(),
        ),
        advice=("Look at that line; bound the loop or the wait.",),
        certainty=Certainty.LIKELY if sampler or knot.motion() is Motion.FROZEN else Certainty.POSSIBLE,
    )
