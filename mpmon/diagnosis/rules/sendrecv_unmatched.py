"""send and recv between ranks do not pair up.

What it looks like: two ranks are both in `send` to each other, or both in `recv`. Or one sends what the other does not
receive, because their tags or groups differ or one rank has counted one too many. Or several ranks wait to send to or receive
from a rank that has moved on to a collective.
What to do: let one of the two receive first, or use `batch_isend_irecv`; use the same number of micro-batches on every pipeline
stage.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives import Differs, Split, split
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.diagnosis.suspects import stands_at

CAUSE = "sendrecv-unmatched"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """All ranks, or those in a cycle, are in point-to-point operations of the same direction; or they send and receive without
    a match, also because the other is in a collective; or all their waits lead to one rank that has gone on to a collective.
    """
    found = split(stuck)
    if found is None:
        return None
    if found.how is Differs.GONE_ON:
        return _has_gone_on(stuck, found)
    if found.how in (Differs.PAIR, Differs.UNMET):
        return _do_not_meet(stuck, found)
    if found.how is not Differs.DIRECTION:
        return None
    places = [f"{stuck.job.name(key[0])} at {stands_at(stuck.job, key)}" for key in found.others]
    alike = {stands_at(stuck.job, key) for key in found.others}
    who, direction = "both" if len(found.others) == 2 else "all", min(found.groups)
    where = f"{who} at {alike.pop()}" if len(alike) == 1 else several(places)
    opposite = {"send": "receiving", "recv": "sending"}.get(direction, "in the opposite operation")
    return Match(
        summary=f"{stuck.job.names(found.others)} are {who} in {direction}, and none of them is {opposite}: {where}",
        evidence=(*places, *_parted(stuck, found)),
        advice=("Let one of each pair receive first, or use torch.distributed.batch_isend_irecv.",),
        certainty=Certainty.LIKELY,
    )


def _do_not_meet(stuck: StuckSet, found: Split) -> Match:
    """One rank sends to the other, which receives from it, but the operations do not match; or the other is in a collective."""
    there = dict.fromkeys(
        target for key in found.odd for target in stuck.targets(key)
        if isinstance(target, tuple) and target not in found.odd and found.how is Differs.UNMET
    )  # fmt: skip
    said = [
        f"{stuck.job.name(key[0])} waits for {stuck.waits_for(key)}{_tag(stuck, key)}{stuck.at(key)}"
        for key in (*(found.others or found.odd), *there)
    ]
    names = stuck.job.names(found.others or found.odd)
    return Match(
        summary="; ".join((f"sends and receives of {names} do not match: {several(said)}", *_parted(stuck, found))),
        evidence=(*said, *_parted(stuck, found)),
        advice=("Match the numbers of sends and receives on both sides, with the same tag and group.",),
        certainty=Certainty.LIKELY, tells_of=frozenset((*(found.others or found.odd), *there)),
    )  # fmt: skip


def _parted(stuck: StuckSet, found: Split) -> tuple[str, ...]:
    """Why the odd ranks are those: one of their variables."""
    return (
        (f"{found.name} has another value on {stuck.job.names(found.odd)} than on the other ranks",)
        if found.name
        else ()
    )


def _tag(stuck: StuckSet, key: ThreadKey) -> str:
    frame = stuck.wait_state(key).frame
    tag = ((frame.known or {}) if frame else {}).get("tag", "0")
    return f" (tag {tag})" if tag != "0" else ""


def _has_gone_on(stuck: StuckSet, found: Split) -> Match:
    """One rank is in a collective, and more ranks wait for it point to point than are in that collective."""
    (end,) = found.odd
    name, word = stuck.job.name(end[0]), stuck.wait_state(end).words
    places = [f"{stuck.job.name(key[0])} waits{stuck.at(key)} for {stuck.waits_for(key)}" for key in found.others]
    return Match(
        summary=f"{name} has gone on to {word}{stuck.at(end)}, while others still want to send to it or receive from it: "
        f"{several(places)}",
        evidence=tuple(edge.evidence for key in found.others if (edge := stuck.graph.node(key).edge)),
        advice=(
            "Match the numbers of sends and receives on both sides: the same number of micro-batches on each stage.",
        ),
        certainty=Certainty.LIKELY, tells_of=frozenset((*found.others, end)),
    )  # fmt: skip
