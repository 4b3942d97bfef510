"""Some ranks never enter the collective that the others wait in.

What it looks like: most ranks stand in the gradient reduction of a backward pass (or in another collective), the rest has
left the loop and stands in the next barrier, or has ended.
Why: a branch on the rank, an uneven number of batches, an early exit or `continue` on one rank.
What to do: give every rank the same number of batches (`drop_last`, `DistributedSampler`), use `model.join()`, and move
collectives out of branches on the rank.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import numbered, odd_ones_out, operations
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.waits import BACKWARD, Wait
from mpmon.diagnosis.words import several

CAUSE = "collective-missing"
NEEDS = frozenset({"stacks", "flight_records"})

_FOR_OTHERS = frozenset({Wait.STORE_KEY, Wait.RENDEZVOUS, Wait.SOCKET, Wait.QUEUE_GET, Wait.PROCESS_EVENT})
"""What a rank may wait for that only other processes bring."""


def claim(knot: Knot) -> Claim | None:
    """Some ranks reduce gradients, others are in a collective of their own; or some are in no collective any more."""
    groups = operations(knot)
    absent = [key for key in sorted(knot.closed.members) if _is_elsewhere(knot, key)]
    if groups and absent:
        return _left(knot, groups, absent)
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


def _is_elsewhere(knot: Knot, key: ThreadKey) -> bool:
    main = key[0] == key[1] and knot.case.role(key[0]).kind == "rank"
    return main and knot.standing(key).kind in _FOR_OTHERS


def _left(knot: Knot, groups: dict[str, list[ThreadKey]], absent: list[ThreadKey]) -> Claim:
    """Ranks that wait for something else, which only those in the collective could bring.

    Where most wait for a key of the store, whoever does not was to set it.
    """
    there = [key for keys in groups.values() for key in keys]
    if len(absent) > len(there) and all(knot.standing(key).kind is Wait.STORE_KEY for key in absent):
        return _left_without_key(knot, there, absent)
    names = several([knot.case.role(key[0]).name for key in absent])
    others = several([knot.case.role(key[0]).name for key in there])
    does = several(
        [f"{knot.case.role(key[0]).name} waits for {knot.waits_for(key)} at {knot.case.place(key)}" for key in absent]
    )
    return Claim(
        summary=f"{names} never enters {several(list(groups))}, in which {others} wait: {does}",
        evidence=knot.edge_evidence(),
        advice=("Let all ranks leave the loop in the same step: agree on it by a collective before the others go on.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, absent)),
    )


def _left_without_key(knot: Knot, there: list[ThreadKey], absent: list[ThreadKey]) -> Claim:
    """Those in a collective have gone past the place at which they were to set a key for all others."""
    names = several([knot.case.role(key[0]).name for key in there])
    others = several([knot.case.role(key[0]).name for key in absent])
    return Claim(
        summary=f"{others} wait for a key of the store{knot.at(absent[0])}, and {names}, which alone could set it, "
        f"{'has' if len(there) == 1 else 'have'} gone on to {knot.standing(there[0]).words}{knot.at(there[0])}",
        evidence=knot.edge_evidence(),
        advice=("Set the key on every path of the rank that the others wait for, also after an error.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, there)),
    )
