"""Ranks are in different collectives, or in the same with different arguments.

What it looks like: every rank stands in a collective, but not all in the same one: a broadcast here, a barrier there.
Why: code that only some ranks run calls a collective (evaluation through the DistributedDataParallel wrapper, a barrier
behind `if rank == 0`), the order of two groups differs, or a rank comes with another group than the others expect.
What to do: call the same collectives in the same order on every rank; evaluate with `model.module`.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import (
    astray,
    differing,
    named_root,
    numbered,
    odd_ones_out,
    operations,
    with_another_root,
)
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.waits import BACKWARD
from mpmon.diagnosis.words import runs, several

CAUSE = "collective-mismatch"
NEEDS = frozenset({"stacks", "flight_records"})


def claim(knot: Knot) -> Claim | None:
    """All ranks are in collectives of different names, none of them in a backward pass."""
    groups = operations(knot)
    if len(groups) == 1:
        name, keys = next(iter(groups.items()))
        return (
            _not_the_same(knot, name) or _other_root(knot, name, keys) or _other_groups(knot, name, keys)
            or _other_arguments(knot, name, keys) or _other_lines(knot, name, keys)
        )  # fmt: skip
    if not groups or BACKWARD in groups:
        return None
    numbers = numbered(knot)
    # Whoever only gives to the root, or is the root that only gives, may have gone on.
    roots = (_other_root(knot, name, keys) for name, keys in groups.items() if not numbers.odd and len(keys) > 1)
    if found := next(filter(None, roots), None):
        return found
    odd = numbers.odd or odd_ones_out(knot, groups)
    words = [f"{', '.join(knot.case.role(key[0]).name for key in keys)} in {name}" for name, keys in groups.items()]
    return Claim(
        summary=f"ranks are in different collectives: {'; '.join(words)}",
        evidence=(
            *numbers.evidence,
            *(f"{knot.case.role(key[0]).name}: {name} at {knot.case.place(key)}"
              for name, keys in groups.items() for key in keys),
        ),
        advice=(
            "Call the same collectives in the same order on every rank.",
            "Evaluate and save with model.module, outside of the DistributedDataParallel wrapper.",
        ),
        certainty=numbers.certainty,
        suspects=tuple(map(knot.case.suspect, odd)),
    )  # fmt: skip


def _not_the_same(knot: Knot, name: str) -> Claim | None:
    """All ranks in operations of the same name, which their numbers, sizes or types show to be different ones."""
    numbers = numbered(knot)
    if not numbers.evidence:
        return None
    return Claim(
        summary=f"all ranks are in {name}, but not in the same one: {'; '.join(numbers.evidence)}",
        evidence=numbers.evidence,
        advice=("Use process groups in the same order on every rank.", "Compare shape and dtype of what is reduced."),
        certainty=numbers.certainty,
        suspects=tuple(map(knot.case.suspect, numbers.odd)) or None,
    )


def _other_lines(knot: Knot, name: str, keys: list[tuple[int, int]]) -> Claim | None:
    """All ranks in an operation of the same name, called from different lines: in another group, or out of step."""
    places: dict[str, list[tuple[int, int]]] = {}
    for key in keys:
        places.setdefault(str(knot.case.place(key)), []).append(key)
    if len(places) < 2 or name == BACKWARD:
        return None
    odd = odd_ones_out(knot, places)
    words = [f"{', '.join(knot.case.role(key[0]).name for key in found)} at {place}" for place, found in places.items()]
    return Claim(
        summary=f"all ranks are in {name}, but called from different lines: {'; '.join(words)}",
        evidence=tuple(words),
        advice=(
            "Use process groups in the same order on every rank.",
            "Compare how often each rank goes round its loop.",
        ),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )


def _other_root(knot: Knot, name: str, keys: list[tuple[int, int]]) -> Claim | None:
    """Ranks in an operation with a root, but some of them name another one than the others."""
    found = with_another_root(keys, knot.case)
    if found is None:
        return None
    odd, argument = found
    said = [f"{knot.case.role(key[0]).name} with {argument}={named_root(key, knot.case)[argument]}" for key in keys]
    return Claim(
        summary=f"{'all ranks are' if len(operations(knot)) == 1 else 'ranks are'} in {name}, but not with the same root: "
        f"{', '.join(said)}{knot.at(odd[0])}",
        evidence=tuple(said),
        advice=(f"Let every rank name the same `{argument}`: let one of them choose it and tell the others.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )


def _other_groups(knot: Knot, name: str, keys: list[ThreadKey]) -> Claim | None:
    """Ranks at one line in groups of which some belong to the groups of others, but not the other way round."""
    odd, waiting = astray(keys, knot.case)
    if not odd:
        return None
    said = [
        f"{knot.case.role(key[0]).name} is in the group of ranks {runs(knot.case.group_of(key))}{knot.at(key)}"
        for key in keys if knot.case.group_of(key)
    ]  # fmt: skip
    names = several([knot.case.role(key[0]).name for key in waiting])
    astray_names = several([knot.case.role(key[0]).name for key in odd])
    return Claim(
        summary=f"ranks are in {name} of different groups: {names} wait{'s' if len(waiting) == 1 else ''} for {astray_names}"
        f"{knot.at(waiting[0])}, and {astray_names} came there with another group",
        evidence=tuple(said),
        advice=("Compare which process group each rank passes at that line.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )


def _other_arguments(knot: Knot, name: str, keys: list[tuple[int, int]]) -> Claim | None:
    """All ranks in the same operation, but one of them with another value at hand: another group, size or dtype."""
    found = differing(keys, knot.case)
    if found is None:
        return None
    odd, variable = found
    names = ", ".join(knot.case.role(key[0]).name for key in odd)
    place = knot.case.place(odd[0])
    return Claim(
        summary=f"all ranks are in {name}, but {names} with another `{variable}` than most{knot.at(odd[0])}",
        evidence=(
            f"the local variable `{variable}` of {place.function if place else 'the caller'} differs on {names}",
        ),
        advice=("Use process groups in the same order on every rank.", "Compare shape and dtype of what is reduced."),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )
