"""Ranks are in different collectives, or in the same with different arguments.

What it looks like: every rank stands in a collective, but not all in the same one: a broadcast here, a barrier there.
Why: code that only some ranks run calls a collective (evaluation through the DistributedDataParallel wrapper, a barrier
behind `if rank == 0`), or the order of two groups differs.
What to do: call the same collectives in the same order on every rank; evaluate with `model.module`.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import odd_ones_out, operations
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.waits import BACKWARD

CAUSE = "collective-mismatch"


def claim(knot: Knot) -> Claim | None:
    """All ranks are in collectives of different names, none of them in a backward pass."""
    groups = operations(knot)
    if len(groups) < 2 or BACKWARD in groups:
        return None
    odd = odd_ones_out(knot, groups)
    words = [f"{', '.join(knot.case.role(key[0]).name for key in keys)} in {name}" for name, keys in groups.items()]
    return Claim(
        summary=f"ranks are in different collectives: {'; '.join(words)}",
        evidence=tuple(
            f"{knot.case.role(key[0]).name}: {name} at {knot.case.place(key)}"
            for name, keys in groups.items()
            for key in keys
        ),
        advice=(
            "Call the same collectives in the same order on every rank.",
            "Evaluate and save with model.module, outside of the DistributedDataParallel wrapper.",
        ),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )
