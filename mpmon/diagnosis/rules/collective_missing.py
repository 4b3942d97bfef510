"""Some ranks never enter the collective that the others wait in.

What it looks like: most ranks stand in the gradient reduction of a backward pass (or in another collective), the rest has
left the loop and stands in the next barrier, or its script has ended and a thread that is no daemon, such as a heartbeat,
keeps the process; or processes stand in a `multiprocessing.Barrier`, and the one
that is missing waits for their end.
Why: a branch on the rank, an uneven number of batches, an early exit or `continue` on one rank.
What to do: give every rank the same number of batches (`drop_last`, `DistributedSampler`), use `model.join()`, and move
collectives out of branches on the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpmon.diagnosis.collectives import Differs, Split, names_of, split
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Nobody
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.responsibility import absent_party
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "collective-missing"
NEEDS = frozenset({"stacks", "flight_records"})


def claim(knot: Knot) -> Claim | None:
    """Some ranks reduce gradients, others are in a collective of their own; or some are in no collective any more."""
    if absent := absent_party(knot):
        return _never_came(knot, absent)
    if knot.nobody and knot.nobody.reason is Absent.RANK_EXITS:
        return _ended_early(knot, knot.nobody)
    found = split(knot)
    tell = _TELLS.get(found.how) if found else None
    return tell(knot, found) if tell and found else None


def _never_came(knot: Knot, absent: list[ThreadKey]) -> Claim:
    """Processes in a barrier of multiprocessing, and those who should come wait for the end of these."""
    inside = [key for key in knot.closed.core if key not in absent]
    does = several([f"{_names(knot, [key])} waits for {knot.waits_for(key)}{knot.at(key)}" for key in absent])
    return Claim(
        summary=f"{_names(knot, inside)} {'waits' if len(inside) == 1 else 'wait'} in a barrier{knot.at(inside[0])} for "
        f"{_names(knot, absent)}, which {'does' if len(absent) == 1 else 'do'} not come: {does}",
        evidence=knot.edge_evidence(),
        advice=(
            "Let every party come to the barrier as often as the others, or call Barrier.abort() where one leaves.",
        ),
        certainty=Certainty.LIKELY,
    )


def _ended_early(knot: Knot, nobody: Nobody) -> Claim:
    """The script of a rank is over, by an error or by its end, and a thread that is no daemon keeps its process."""
    names = several([knot.case.role(pid).name for pid in nobody.blame])
    waiting = [key for key in knot.closed.members if knot.standing(key).kind is Wait.COLLECTIVE]
    return Claim(
        summary=f"the script of {names} has ended, and {_names(knot, waiting)} {'waits' if len(waiting) == 1 else 'wait'} for it "
        f"in {knot.standing(waiting[0]).words if waiting else 'a collective'}",
        evidence=(nobody.why,),
        advice=(
            f"Search the standard error of {names} for a traceback.",
            "Start its threads with daemon=True: others keep a process whose script has failed, and its launcher learns nothing.",
        ),
        certainty=Certainty.LIKELY,
    )


def _names(knot: Knot, keys: Iterable[ThreadKey]) -> str:
    return several([knot.case.role(key[0]).name for key in keys])


def _left_backward(knot: Knot, found: Split) -> Claim:
    place = knot.case.place(found.odd[0])
    words = [f"{names_of(knot, keys)} in {name}" for name, keys in reversed(found.few_first)]
    return Claim(
        summary=f"{', '.join(knot.case.role(key[0]).name for key in found.odd)} never enters the gradient reduction the others "
        f"wait in: {'; '.join(words)}{f'; it stands at {place}' if place else ''}",
        evidence=(
            *found.numbers.evidence,
            *(f"{knot.case.role(key[0]).name}: {name} at {knot.case.place(key)}"
              for name, keys in found.few_first for key in keys),
        ),
        advice=(
            "Give every rank the same number of batches (drop_last, DistributedSampler), or use model.join().",
            "Move collectives out of branches on the rank.",
        ),
        certainty=found.numbers.certainty, tells_of=found.all,
    )  # fmt: skip


def _left(knot: Knot, found: Split) -> Claim:
    """Ranks that wait for something else, which only those in the collective could bring."""
    does = several([
        f"{knot.case.role(key[0]).name} waits for {knot.waits_for(key)} at {knot.case.place(key)}" for key in found.odd
    ])  # fmt: skip
    return Claim(
        summary=f"{_names(knot, found.odd)} never enters {several(list(found.groups))}, in which "
        f"{_names(knot, found.others)} wait: {does}",
        evidence=knot.edge_evidence(),
        advice=("Let all ranks leave the loop in the same step: agree on it by a collective before the others go on.",),
        certainty=Certainty.LIKELY,
    )


def _left_without_key(knot: Knot, found: Split) -> Claim:
    """Those in a collective have gone past the place at which they were to set a key for most others."""
    there = found.odd[0]
    return Claim(
        summary=f"{_names(knot, found.others)} wait for a key of the store{knot.at(found.others[0])}, and "
        f"{_names(knot, found.odd)}, which alone could set it, {'has' if len(found.odd) == 1 else 'have'} gone on to "
        f"{knot.standing(there).words}{knot.at(there)}",
        evidence=knot.edge_evidence(),
        advice=("Set the key on every path of the rank that the others wait for, also after an error.",),
        certainty=Certainty.LIKELY,
    )


_TELLS: dict[Differs, Callable[[Knot, Split], Claim]] = {
    Differs.LEFT_BACKWARD: _left_backward,
    Differs.ELSEWHERE: _left,
    Differs.KEY: _left_without_key,
}
