"""A DataLoader or pool worker does not come back from user code.

What it looks like: the trainer waits for the next batch (or a pool's result), one worker's stack ends in the dataset's
code and has not changed, its siblings wait for work.
Why: a download that backs off, a lock of a library, a loop that never finds what it looks for, a file that does not open.
What to do: look at the worker's line; `num_workers=0` shows the same in the trainer; give what it calls a timeout.
`DataLoader(timeout=…)` turns the hang into an error.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.parts import Part, part

CAUSE = "worker-stuck"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """The root is a worker inside the code it was asked to run."""
    if part(knot) is not Part.WORKER:
        return None
    spins = knot.motion() is Motion.SPINNING
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}",
        evidence=(_moves(knot), *knot.edge_evidence()),
        advice=(
            "Look at that line; num_workers=0 runs it in the trainer, where it is easier to watch."
            if "dataloader" in knot.role()
            else "Look at that line.",
            "Bound the loop: it never finds what it looks for."
            if spins
            else "Give what it calls a timeout; DataLoader(timeout=60) turns such a wait into an error.",
        ),
        certainty=Certainty.POSSIBLE if spins and knot.context() is None else Certainty.LIKELY,
    )


def _moves(knot: Knot) -> str:
    if knot.motion() is Motion.FROZEN:
        return f"{knot.role()} has not run for {knot.for_how_long()} (scheduler counters of /proc/PID/task/TID)"
    if knot.motion() is Motion.SPINNING:
        return knot.burning()
    return f"{knot.role()} wakes and goes back to the same line: every look finds the same arguments"
