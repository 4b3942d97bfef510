"""Fewer ranks came than the world size, or they look for each other in the wrong place.

What it looks like: ranks stand in `init_process_group` or wait for a key of the store.
Why: a rank was never started or died before, WORLD_SIZE is wrong, MASTER_ADDR, MASTER_PORT or `init_method` differ, or the
names of keys do: a prefix with the number of an attempt or of an epoch that one rank counts differently.
What to do: count the ranks; compare MASTER_ADDR, MASTER_PORT and WORLD_SIZE in their environments, `init_method`, and what
goes into the names of keys and prefixes.
"""

from __future__ import annotations

from collections.abc import Callable

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.meeting import Meeting, Missed, meeting
from mpmon.diagnosis.words import several

CAUSE = "rendezvous"
NEEDS = frozenset({"stacks", "processes"})


def claim(knot: Knot) -> Claim | None:
    """The chain ends in ranks that wait for others to come, or for a key of the store."""
    found = meeting(knot)
    if found and found.how is Missed.OTHERS and knot.outside and knot.outside.of_job:
        # Whether they were started, only the machines know on which they were to run.
        return None
    return _TELLS[found.how](knot, found) if found else None


def _others(knot: Knot, found: Meeting) -> Claim:
    names, waiting = _names(knot, found.waiting), found.waiting
    why = knot.nobody.why if knot.nobody else knot.outside.who if knot.outside else "the others"
    return Claim(
        summary=f"{names} wait{'s' if len(waiting) == 1 else ''} in {knot.standing(waiting[0]).words}: {why}",
        evidence=tuple(_environment(knot, key[0]) for key in waiting),
        advice=("Start the missing rank, or correct WORLD_SIZE.", "Compare MASTER_ADDR and MASTER_PORT of all ranks."),
        certainty=Certainty.LIKELY,
    )


def _other_address(knot: Knot, found: Meeting) -> Claim:
    right = next(address for key, address in found.addresses.items() if key not in found.odd)
    return Claim(
        summary=f"{_names(knot, found.odd)} look{'s' if len(found.odd) == 1 else ''} for the others at "
        f"{found.addresses[found.odd[0]]}, the other ranks at {right}",
        evidence=tuple(
            f"{knot.case.role(pid).name} (pid {pid}): {address}" for (pid, _), address in found.addresses.items()
        ),
        advice=("Give all ranks the same init_method, or the same MASTER_ADDR and MASTER_PORT.",),
        certainty=Certainty.LIKELY,
    )


def _other_value(knot: Knot, found: Meeting) -> Claim:
    first, names = found.waiting[0], _names(knot, found.odd)
    return Claim(
        summary=f"{_names(knot, found.waiting)} wait for each other in {knot.standing(first).words}{knot.at(first)}, but "
        f"{names} with another `{found.variable}` than most",
        evidence=(f"the local variable `{found.variable}` differs on {names}", *knot.edge_evidence()),
        advice=(f"Give all ranks the same `{found.variable}`, where it goes into a prefix or a key of the store.",),
        certainty=Certainty.LIKELY,
    )


def _key_never_set(knot: Knot, found: Meeting) -> Claim:
    """Everybody who could set a key of the store waits, for the key or for those who wait for it."""
    others = [key for key in found.odd if key not in found.waiting]
    ends = [f"{knot.case.role(key[0]).name} waits for {knot.standing(key).words}{knot.at(key)}" for key in others]
    return Claim(
        summary=f"{_names(knot, found.waiting)} wait for a key of the store{knot.at(found.waiting[0])} that nobody sets"
        + (f": {several(ends)}" if ends else ""),
        evidence=knot.edge_evidence(),
        advice=(
            "Set the key before waiting for those who read it; compare the names of the keys that are set and read.",
        ),
        certainty=Certainty.LIKELY,
    )


def _names(knot: Knot, keys: tuple[tuple[int, int], ...]) -> str:
    return several([knot.case.role(key[0]).name for key in keys])


def _environment(knot: Knot, pid: int) -> str:
    kept = knot.case.processes[pid].environment or {}
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return f"{knot.case.role(pid).name} (pid {pid}): " + (
        " ".join(f"{n}={kept[n]}" for n in names if n in kept) or "no environment"
    )


_TELLS: dict[Missed, Callable[[Knot, Meeting], Claim]] = {
    Missed.ADDRESS: _other_address,
    Missed.VALUE: _other_value,
    Missed.KEY: _key_never_set,
    Missed.OTHERS: _others,
}
