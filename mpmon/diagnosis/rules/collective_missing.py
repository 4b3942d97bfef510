"""Some ranks never enter the collective, or processes the barrier, that the others wait in.

What it looks like: most ranks are in the gradient reduction of a backward pass (or in another collective). The rest have left
the loop and are in the next barrier, or their script has ended and a non-daemon thread, such as a heartbeat, keeps the
process alive. Or processes are in a `multiprocessing.Barrier`, and the missing one is waiting for them to end.
Why: a branch on the rank, an uneven number of batches, an early exit or `continue` on one rank.
What to do: give every rank the same number of batches (`drop_last`, `DistributedSampler`), use `model.join()`, and move
collectives out of branches on the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries.torch import BACKWARD
from mpmon.diagnosis.responsibility.parties import absent_party
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, REQUESTS, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives import Differs, Split, names_of, split
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.diagnosis.suspects import stands_at

CAUSE = "collective-missing"
NEEDS = frozenset({"stacks", "flight_records"})


def match(stuck: StuckSet) -> Match | None:
    """Some ranks reduce gradients while others are in a different collective, or some are no longer in any collective."""
    if absent := absent_party(stuck):
        return _never_came(stuck, absent)
    if stuck.nobody and stuck.nobody.reason is Absent.RANK_EXITS:
        return _ended_early(stuck, stuck.nobody)
    found = split(stuck)
    tell = _TELLS.get(found.how) if found else None
    return tell(stuck, found) if tell and found else None


def _never_came(stuck: StuckSet, absent: list[ThreadKey]) -> Match:
    """Processes wait in a multiprocessing barrier, and the missing parties wait for something else."""
    inside = [key for key in stuck.closed.core if in_barrier(stuck.job.stacks.get(key))]
    does = several([f"{stuck.job.names([key])} waits{stuck.at(key)} for {stuck.waits_for(key)}" for key in absent])
    # Who waits for what those inside would send need be no party, but perhaps the one who starts too few of them.
    asks = all(stuck.wait_state(key).kind in REQUESTS | COMES_BY_READING for key in absent)
    parties, one = ("another party", True) if asks else (stuck.job.names(absent), len(absent) == 1)
    return Match(
        summary=f"{stuck.job.names(inside)} {'waits' if len(inside) == 1 else 'wait'} in a barrier{stuck.at(inside[0])} for "
        f"{parties}, which never {'arrives' if one else 'arrive'}: {does}",
        evidence=stuck.edge_evidence(),
        advice=(
            "Start as many processes as the barrier has parties.",
            "Let all parties enter the barrier equally often, or call Barrier.abort() when one leaves.",
        ),
        certainty=Certainty.LIKELY, tells_of=frozenset((*inside, *absent)),
    )  # fmt: skip


def _ended_early(stuck: StuckSet, nobody: NoReleaser) -> Match:
    """A rank's script has ended, normally or with an error, and a non-daemon thread keeps its process alive."""
    names = stuck.job.names(nobody.blame)
    ranks = ((pid, pid) for pid in stuck.job.ranks)
    alike = [key for key in ranks if nobody in stuck.targets(key)]
    waiting = [key for key in alike or stuck.closed.members if stuck.wait_state(key).kind is Wait.COLLECTIVE]
    return Match(
        summary=f"the script of {names} has ended, but {stuck.job.they(waiting, 'wait')} for {names} "
        f"in {stuck.wait_state(waiting[0]).words if waiting else 'a collective'}",
        evidence=(nobody.why,),
        advice=(
            f"Search the standard error of {names} for a traceback.",
            "Start its threads with daemon=True: non-daemon threads keep a failed process alive, unnoticed by its launcher.",
        ),
        certainty=Certainty.LIKELY,
    )


def _left_backward(stuck: StuckSet, found: Split) -> Match:
    words = [
        f"{names_of(stuck, keys)} in {name}{stuck.at(keys[0]) if keys[0] in found.odd else ''}"
        for name, keys in reversed(found.few_first)
    ]
    there = [key for name, keys in found.few_first if name == BACKWARD for key in keys]
    they = "the others wait" if len(there) + len(found.odd) == len(found.all) else stuck.job.they(there, "wait")
    return Match(
        summary=f"{', '.join(stuck.job.name(key[0]) for key in found.odd)} never {_enter(found.odd)} the gradient reduction "
        f"that {they} in: {'; '.join(words)}",
        evidence=(
            *found.numbers.evidence,
            *(f"{stuck.job.name(key[0])}: {name} at {stands_at(stuck.job, key)}"
              for name, keys in found.few_first for key in keys),
        ),
        advice=(
            "Give every rank the same number of batches (drop_last, DistributedSampler), or use model.join().",
            "Move collectives out of branches on the rank.",
        ),
        certainty=found.numbers.certainty, tells_of=found.all,
    )  # fmt: skip


def _left(stuck: StuckSet, found: Split) -> Match:
    """The absent ranks wait for something that only the ranks in the collective could provide."""
    does = several([
        f"{stuck.job.name(key[0])} waits for {stuck.waits_for(key)} at {stands_at(stuck.job, key)}" for key in found.odd
    ])  # fmt: skip
    return Match(
        summary=f"{stuck.job.names(found.odd)} never {_enter(found.odd)} {several(list(found.groups))}, in which "
        f"{stuck.job.names(found.others)} {'waits' if len(found.others) == 1 else 'wait'}: {does}",
        evidence=stuck.edge_evidence(),
        advice=(
            f"Find out what should have ended the wait of {stuck.job.names(found.odd)}{stuck.at(found.odd[0])}.",
            "Let all ranks leave the loop in the same step: agree on it with an all_reduce of a flag.",
        ),
        certainty=Certainty.LIKELY, tells_of=found.all,
    )  # fmt: skip


def _enter(keys: Sequence[ThreadKey]) -> str:
    return "enters" if len(keys) == 1 else "enter"


def _left_without_key(stuck: StuckSet, found: Split) -> Match:
    """The ranks in a collective have passed the point where they should have set a store key that most ranks wait for."""
    there = found.odd[0]
    return Match(
        summary=f"{stuck.job.names(found.others)} wait for a key of the store{stuck.at(found.others[0])}, and "
        f"{stuck.job.names(found.odd)}, which alone could set it, {'has' if len(found.odd) == 1 else 'have'} gone on to "
        f"{stuck.wait_state(there).words}{stuck.at(there)}",
        evidence=stuck.edge_evidence(),
        advice=("Set the key on every code path of that rank, also after an error.",),
        certainty=Certainty.LIKELY,
    )


_TELLS: dict[Differs, Callable[[StuckSet, Split], Match]] = {
    Differs.LEFT_BACKWARD: _left_backward,
    Differs.ELSEWHERE: _left,
    Differs.KEY: _left_without_key,
}
