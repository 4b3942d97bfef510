"""Ranks are in different collectives, or in the same one with different arguments.

What it looks like: every rank is in a collective, but not all in the same one: a broadcast here, a barrier there.
Why: code that only some ranks run calls a collective (evaluation through the DistributedDataParallel wrapper, a barrier
behind `if rank == 0`), two groups are used in a different order, or a rank passes a different group than the others expect.
Which: the few ranks that differ from most. If the ranks are split evenly, the evidence says why these are blamed: how far each
has come in the program, or a test of the rank's number on the way.
What to do: call the same collectives in the same order on every rank; evaluate with `model.module`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.humanize import runs, several, verb
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives import Differs, Split, named_group, named_root, names_of, split
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.diagnosis.suspects import stands_at

CAUSE = "collective-mismatch"
NEEDS = frozenset({"stacks", "flight_records"})


def match(stuck: StuckSet) -> Match | None:
    """All ranks are in collectives, but of different names, or of the same name and still not in the same operation."""
    found = split(stuck)
    tell = _TELLS.get(found.how) if found else None
    return msgspec.structs.replace(tell(stuck, found), tells_of=found.all) if tell and found else None


def _other_operation(stuck: StuckSet, found: Split) -> Match:
    words = [f"{names_of(stuck, keys)} in {name}{_common_place(stuck, keys)}" for name, keys in found.few_first]
    at: dict[str, list[ThreadKey]] = {}
    for name, keys in found.groups.items():
        for key in keys:
            at.setdefault(f"{name} at {stands_at(stuck.job, key)}", []).append(key)
    return Match(
        summary=f"ranks are in different collectives: {'; '.join(words)}",
        evidence=(
            *found.numbers.evidence,
            *(f"{names_of(stuck, keys)}: {where}" for where, keys in sorted(at.items(), key=lambda row: len(row[1]))),
            *filter(None, (found.why,)),
        ),
        advice=(
            "Call the same collectives in the same order, and equally often, on every rank.",
            *((_WRAPPER,) if _in_wrapper(stuck, found) else ()),
        ),
        certainty=found.numbers.certainty,
    )  # fmt: skip


_WRAPPER = "Evaluate and save with model.module, outside the DistributedDataParallel wrapper."


def _in_wrapper(stuck: StuckSet, found: Split) -> bool:
    """A rank is in a collective of the wrapper around its model."""
    stacks = (stuck.job.stacks.get(key) for key in found.all)
    return any(frame.file.endswith("nn/parallel/distributed.py") for stack in stacks if stack for frame in stack.frames)


def _common_place(stuck: StuckSet, keys: Iterable[ThreadKey]) -> str:
    """` at ddp.py:30 in save_best`; empty where they differ."""
    places = {stuck.at(key) for key in keys}
    return places.pop() if len(places) == 1 else ""


def _not_the_same(_: StuckSet, found: Split) -> Match:
    """All ranks are in operations of the same name, but their numbers, sizes or types show that the operations differ."""
    evidence = found.numbers.evidence
    return Match(
        summary=f"all ranks are in {_operation(found)}, but not in the same one: {'; '.join(evidence)}",
        evidence=evidence,
        advice=(
            "Use process groups in the same order on every rank.",
            "Compare the shape and dtype of the reduced tensors.",
        ),
        certainty=found.numbers.certainty,
    )


def _other_line(stuck: StuckSet, found: Split) -> Match:
    """All ranks are in an operation of the same name, but called from different lines: in different groups, or out of step."""
    at = sorted(
        ((_all_there(stuck, place, keys), place) for place, keys in found.few_first), key=lambda row: len(row[0])
    )
    words = [f"{names_of(stuck, keys)} at {place}" for keys, place in at]
    return Match(
        summary=f"all ranks are in {found.name}, but not at the same line: {'; '.join(words)}",
        evidence=(*words, *filter(None, (found.why,))),
        advice=(
            "Use process groups in the same order on every rank.",
            "Compare how many loop iterations each rank does.",
        ),
        certainty=Certainty.LIKELY,
    )  # fmt: skip


def _all_there(stuck: StuckSet, place: str, keys: list[ThreadKey]) -> list[ThreadKey]:
    """The ranks at a line, also those that do not differ from any in the group where the lines do."""
    mains = [(pid, pid) for pid in stuck.job.ranks]
    others = [
        key
        for key in mains
        if stuck.wait_state(key).kind is Wait.COLLECTIVE and str(stands_at(stuck.job, key)) == place
    ]
    return list(dict.fromkeys((*keys, *others)))


def _other_name(stuck: StuckSet, found: Split) -> Match:
    """All ranks make a group, and meet under a name that counts the groups made so far."""
    usual = [key for key in found.others if key not in found.odd]
    names = [named_group(keys[0], stuck.job) for keys in (found.odd, usual)]
    odd = f"{names_of(stuck, found.odd)} {verb(len(found.odd), 'make')} group {names[0]}"
    return Match(
        summary=f"all ranks are in {found.name}, but {odd} and the others group {names[1]}{stuck.at(found.odd[0])}: "
        "they have made a different number of groups before",
        evidence=tuple(
            f"{names_of(stuck, keys)}: `group_name` of torch is {name}"
            for keys, name in zip((found.odd, usual), names, strict=True)
        ),
        advice=("Call new_group() on every rank, also on those outside of the group, and in the same order.",),
        certainty=Certainty.LIKELY,
    )


def _other_root(stuck: StuckSet, found: Split) -> Match:
    """Ranks are in an operation that has a root, but some ranks name a different root."""
    said = [
        f"{stuck.job.name(key[0])} with {found.name}={named_root(key, stuck.job)[found.name]}" for key in found.others
    ]
    name = stuck.wait_state(found.odd[0]).words
    return Match(
        summary=f"{'all ranks are' if len(found.groups) == 1 else 'ranks are'} in {name}, but with different roots: "
        f"{', '.join(said)}{stuck.at(found.odd[0])}",
        evidence=tuple(said),
        advice=(
            f"Pass the same `{found.name}` on every rank: a constant such as 0, or a value that all ranks compute alike.",
        ),
        certainty=Certainty.LIKELY,
    )


def _other_group(stuck: StuckSet, found: Split) -> Match:
    """Ranks at one line that expect each other in different groups."""
    astray = stuck.job.names(found.odd)
    told = (
        f"{astray} wait for each other{stuck.at(found.odd[0])}, each in a different group"
        if set(found.odd) == set(found.others)
        else f"{stuck.job.they(found.others, 'wait')} for {astray}{stuck.at(found.others[0])}, "
        f"and {astray} came there with a different process group"
    )
    return Match(
        summary=f"ranks are in {_operation(found)} of different groups: {told}",
        evidence=tuple(
            _in_group(stuck, key) for keys in found.groups.values() for key in keys if stuck.job.group_of(key)
        ),
        advice=("Compare which process group each rank passes at that line.",),
        certainty=Certainty.LIKELY,
    )


def _in_group(stuck: StuckSet, key: ThreadKey) -> str:
    name = stuck.job.group_name(key)
    called = f', which torch calls "{name}",' if name else ""
    return f"{stuck.job.name(key[0])} is in the group of ranks {runs(stuck.job.group_of(key))}{called}{stuck.at(key)}"


def _other_argument(stuck: StuckSet, found: Split) -> Match:
    """All ranks are in the same operation, but a local variable differs on some: another group, size or dtype."""
    names = ", ".join(stuck.job.name(key[0]) for key in found.odd)
    place = stands_at(stuck.job, found.odd[0])
    return Match(
        summary=f"all ranks are in {_operation(found)}, but {names} with a different `{found.name}` than most"
        f"{stuck.at(found.odd[0])}",
        evidence=(
            f"the local variable `{found.name}` of {place.function if place else 'the caller'} differs on {names}",
        ),
        advice=(
            "Use process groups in the same order on every rank.",
            "Compare the shape and dtype of the reduced tensors.",
        ),
        certainty=Certainty.LIKELY,
    )


def _two_threads(stuck: StuckSet, found: Split) -> Match:
    """Ranks use the group from two threads, and the order of operations differs between ranks."""
    keys = {key for row in found.groups.values() for key in row}
    said = [
        f"{stuck.job.name(key[0])}: {stuck.job.thread_words(key)} in {stuck.wait_state(key).words}{stuck.at(key)}"
        for key in sorted(keys.union(found.others))
    ]
    pids = dict.fromkeys(key[0] for key in found.odd)
    names = stuck.job.names(pids)
    turns = "are in collectives with two threads each, in different orders"
    turn = "is in collectives with two threads at once; the others are not"
    return Match(
        summary=f"{names} {turns if len(pids) > 1 else turn}: {several(said)}",
        evidence=tuple(said),
        advice=("Give each thread a process group of its own (dist.new_group), or let one thread do all collectives.",),
        certainty=Certainty.LIKELY,
    )


def _operation(found: Split) -> str:
    return next(iter(found.groups))


_TELLS: dict[Differs, Callable[[StuckSet, Split], Match]] = {
    Differs.OPERATION: _other_operation,
    Differs.NUMBER: _not_the_same,
    Differs.NAME: _other_name,
    Differs.ROOT: _other_root,
    Differs.GROUP: _other_group,
    Differs.ARGUMENT: _other_argument,
    Differs.THREADS: _two_threads,
    Differs.LINE: _other_line,
}
