"""send and recv between ranks do not pair up.

What it looks like: two ranks both stand in `send` to each other, or both in `recv`; or one sends what the other does not
receive, since their tags or groups differ or one has counted on; or several ranks wait for a send or a
receive of one that has gone on to a collective.
What to do: let one of the two receive first, or use `batch_isend_irecv`; let all stages of a pipeline count alike.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import Differs, Split, split
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.words import several

CAUSE = "sendrecv-unmatched"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """Every rank is in a point-to-point operation, all in the same direction; or those that name each other are; or one of
    these sends and the other receives; or all of them lead to one that has gone on to a collective.
    """
    found = split(knot)
    if found is None:
        return None
    if found.how is Differs.GONE_ON:
        return _has_gone_on(knot, found)
    if found.how is Differs.PAIR:
        return _do_not_meet(knot, found)
    if found.how is not Differs.DIRECTION:
        return None
    places = [f"{knot.case.role(key[0]).name} at {knot.case.place(key)}" for key in found.odd]
    return Claim(
        summary=f"{several([knot.case.role(key[0]).name for key in found.odd])} all {min(found.groups)}, and none does the "
        f"opposite: {several(places)}",
        evidence=tuple(places),
        advice=("Let one of each pair receive first, or use torch.distributed.batch_isend_irecv.",),
        certainty=Certainty.LIKELY,
    )


def _do_not_meet(knot: Knot, found: Split) -> Claim:
    """One of two sends to the other, which receives from it."""
    said = [
        f"{knot.case.role(key[0]).name} waits for {knot.waits_for(key)}{_tag(knot, key)}{knot.at(key)}"
        for key in found.odd
    ]
    return Claim(
        summary=f"sends and receives of {several([knot.case.role(key[0]).name for key in found.odd])} do not meet: "
        f"{several(said)}",
        evidence=tuple(said),
        advice=("Let both sides count their sends and receives alike, and give both the same tag and group.",),
        certainty=Certainty.LIKELY,
    )


def _tag(knot: Knot, key: ThreadKey) -> str:
    frame = knot.standing(key).frame
    tag = ((frame.known or {}) if frame else {}).get("tag", "0")
    return f" (tag {tag})" if tag != "0" else ""


def _has_gone_on(knot: Knot, found: Split) -> Claim:
    """One rank in a collective, for which more ranks wait point to point than are in that collective."""
    (end,) = found.odd
    name, word = knot.case.role(end[0]).name, knot.standing(end).words
    places = [f"{knot.case.role(key[0]).name} waits for {knot.waits_for(key)}{knot.at(key)}" for key in found.others]
    return Claim(
        summary=f"{name} has gone on to {word}{knot.at(end)}, while others still want to send to it or receive from it: "
        f"{several(places)}",
        evidence=tuple(need.evidence for key in found.others if (need := knot.graph.node(key).need)),
        advice=(
            "Let both sides count their sends and receives alike: the same number of micro batches on each stage.",
        ),
        certainty=Certainty.LIKELY,
    )
