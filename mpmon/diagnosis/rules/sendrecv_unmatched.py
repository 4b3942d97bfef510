"""send and recv between ranks do not pair up.

What it looks like: two ranks both stand in `send` to each other, or both in `recv`; or several ranks wait for a send or a
receive of one that has gone on to a collective.
What to do: let one of the two receive first, or use `batch_isend_irecv`; let all stages of a pipeline count alike.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import operations
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import ASYNCHRONOUS, POINT_TO_POINT
from mpmon.diagnosis.words import several

CAUSE = "sendrecv-unmatched"
NEEDS = frozenset({"stacks"})

_ONE_SIDED = POINT_TO_POINT | {ASYNCHRONOUS}

_SENDS = frozenset({"send", "isend", "send_object_list"})
_RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})


def claim(knot: Knot) -> Claim | None:
    """Every rank is in a point-to-point operation, all in the same direction; or those that name each other are; or all of
    them lead to one that has gone on to a collective.
    """
    if left := _has_gone_on(knot):
        return left
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


def _has_gone_on(knot: Knot) -> Claim | None:
    """One rank in a collective, for which more ranks wait point to point than are in that collective."""
    groups = operations(knot)
    waiting = [key for name, keys in groups.items() if name in _ONE_SIDED for key in keys]
    others = [key for name, keys in groups.items() if name not in _ONE_SIDED for key in keys]
    ends = {_leads_to(knot, key, waiting) for key in waiting}
    end = next(iter(ends), None)
    if len(ends) != 1 or end is None or end not in others or len(waiting) <= len(others):
        return None
    name, word = knot.case.role(end[0]).name, knot.standing(end).words
    places = [f"{knot.case.role(key[0]).name} waits for {knot.waits_for(key)}{knot.at(key)}" for key in waiting]
    return Claim(
        summary=f"{name} has gone on to {word}{knot.at(end)}, while others still want to send to it or receive from it: "
        f"{several(places)}",
        evidence=tuple(need.evidence for key in waiting if (need := knot.graph.node(key).need)),
        advice=(
            "Let both sides count their sends and receives alike: the same number of micro batches on each stage.",
        ),
        certainty=Certainty.LIKELY,
        suspects=(knot.case.suspect(end),),
    )


def _leads_to(knot: Knot, key: ThreadKey, waiting: list[ThreadKey]) -> ThreadKey | None:
    """The first that waits for nobody point to point, from one to the only one it waits for; `None` where there is none."""
    seen: list[ThreadKey] = []
    while key in waiting:
        target = knot.targets(key)[0] if len(knot.targets(key)) == 1 else None
        if not isinstance(target, tuple) or target in seen:
            return None
        seen.append(key)
        key = target
    return key
