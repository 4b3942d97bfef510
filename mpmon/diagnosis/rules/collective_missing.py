"""Some ranks never enter the collective that the others wait in.

What it looks like: most ranks stand in the gradient reduction of a backward pass (or in another collective), the rest has
left the loop and stands in the next barrier, or has ended.
Why: a branch on the rank, an uneven number of batches, an early exit or `continue` on one rank.
What to do: give every rank the same number of batches (`drop_last`, `DistributedSampler`), use `model.join()`, and move
collectives out of branches on the rank.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import numbered, odd_ones_out, operations
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.waits import BACKWARD

CAUSE = "collective-missing"
NEEDS = frozenset({"stacks", "flight_records"})


def claim(knot: Knot) -> Claim | None:
    """Some ranks reduce gradients, others are in a collective of their own."""
    groups = operations(knot)
    if len(groups) < 2 or BACKWARD not in groups:
        return None
    numbers = numbered(knot)
    odd = numbers.odd or odd_ones_out(knot, groups)
    names = ", ".join(knot.case.role(key[0]).name for key in odd)
    place = knot.case.place(odd[0])
    words = [f"{', '.join(knot.case.role(key[0]).name for key in keys)} in {name}" for name, keys in groups.items()]
    return Claim(
        summary=f"{names} never enters the gradient reduction the others wait in: {'; '.join(words)}"
        f"{f'; it stands at {place}' if place else ''}",
        evidence=(
            *numbers.evidence,
            *(f"{knot.case.role(key[0]).name}: {name} at {knot.case.place(key)}"
              for name, keys in groups.items() for key in keys),
        ),
        advice=(
            "Give every rank the same number of batches (drop_last, DistributedSampler), or use model.join().",
            "Move collectives out of branches on the rank.",
        ),
        certainty=numbers.certainty,
        suspects=tuple(map(knot.case.suspect, odd)),
    )  # fmt: skip
