"""send and recv between ranks do not pair up.

What it looks like: two ranks both stand in `send` to each other, or both in `recv`.
What to do: let one of the two receive first, or use `batch_isend_irecv`.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import operations
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.words import several

CAUSE = "sendrecv-unmatched"
NEEDS = frozenset({"stacks"})

_SENDS = frozenset({"send", "isend", "send_object_list"})
_RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})


def claim(knot: Knot) -> Claim | None:
    """Every rank is in a point-to-point operation, all in the same direction; or those that name each other are."""
    groups = operations(knot)
    if knot.ending is Ending.CYCLE and all(len(knot.targets(key)) == 1 for key in knot.roots):
        groups = {name: found for name, keys in groups.items() if (found := [key for key in keys if key in knot.roots])}
    names = set(groups)
    if not names or not (names <= _SENDS or names <= _RECEIVES):
        return None
    keys = [key for found in groups.values() for key in found]
    places = [f"{knot.case.role(key[0]).name} at {knot.case.place(key)}" for key in keys]
    return Claim(
        summary=f"{several([knot.case.role(key[0]).name for key in keys])} all {min(names)}, and none does the opposite: "
        f"{several(places)}",
        evidence=tuple(places),
        advice=("Let one of each pair receive first, or use torch.distributed.batch_isend_irecv.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, keys)),
    )
