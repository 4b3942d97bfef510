"""Fewer ranks came than the world size, or they look for each other in the wrong place.

What it looks like: ranks stand in `init_process_group` or wait for a key of the store.
Why: a rank was never started or died before, WORLD_SIZE is wrong, MASTER_ADDR or MASTER_PORT differ.
What to do: count the ranks; compare MASTER_ADDR, MASTER_PORT and WORLD_SIZE in their environments.
"""

from __future__ import annotations

from collections import Counter

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "rendezvous"
NEEDS = frozenset({"stacks", "processes"})


def claim(knot: Knot) -> Claim | None:
    """The chain ends in a rank that waits for others to come."""
    waiting = knot.members_in(Wait.RENDEZVOUS)
    if not waiting:
        return _key_never_set(knot)
    if knot.ending not in (Ending.NOBODY, Ending.OUTSIDE, Ending.OPEN, Ending.CYCLE):
        return None
    if astray := _elsewhere(knot, waiting):
        return astray
    names = several([knot.case.role(key[0]).name for key in waiting])
    why = knot.nobody.why if knot.nobody else knot.outside.who if knot.outside else "the others"
    starters = tuple(knot.case.suspect((pid, pid)) for pid in (knot.nobody.blame if knot.nobody else ()))
    return Claim(
        summary=f"{names} wait in {knot.standing(waiting[0]).words}: {why}",
        evidence=tuple(_environment(knot, key[0]) for key in waiting),
        advice=("Start the missing rank, or correct WORLD_SIZE.", "Compare MASTER_ADDR and MASTER_PORT of all ranks."),
        certainty=Certainty.LIKELY,
        suspects=starters or tuple(map(knot.case.suspect, waiting)),
    )


def _elsewhere(knot: Knot, waiting: list[tuple[int, int]]) -> Claim | None:
    """Ranks that look for the others at another address than most, or than rank 0, who serves the store."""
    addresses = {key: _address(knot, key[0]) for key in waiting}
    first = min(waiting, key=lambda key: (_rank(knot, key), key))
    counts = Counter(addresses.values())
    right = max(addresses.values(), key=lambda address: (counts[address], address == addresses[first]))
    odd = [key for key, address in addresses.items() if address != right]
    if None in counts or not odd:
        return None
    names = several([knot.case.role(key[0]).name for key in odd])
    return Claim(
        summary=f"{names} look{'s' if len(odd) == 1 else ''} for the others at {addresses[odd[0]]}, the other ranks at {right}",
        evidence=tuple(_environment(knot, key[0]) for key in waiting),
        advice=("Give all ranks the same MASTER_ADDR and MASTER_PORT.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )


def _rank(knot: Knot, key: tuple[int, int]) -> int:
    number = knot.case.role(key[0]).rank
    return 1 << 30 if number is None else number


def _address(knot: Knot, pid: int) -> str | None:
    kept = knot.case.processes[pid].environment or {}
    return f"{kept['MASTER_ADDR']}:{kept['MASTER_PORT']}" if {"MASTER_ADDR", "MASTER_PORT"} <= set(kept) else None


def _key_never_set(knot: Knot) -> Claim | None:
    """Everybody who could set a key of the store waits, for the key or for those who wait for it."""
    waiting = knot.members_in(Wait.STORE_KEY)
    if not waiting or knot.ending not in (Ending.OPEN, Ending.CYCLE):
        return None
    others = [key for key in knot.closed.members if key not in waiting]
    if any(knot.standing(key).kind is Wait.COLLECTIVE for key in others):
        return None
    names = several([knot.case.role(key[0]).name for key in waiting])
    ends = [f"{knot.case.role(key[0]).name} waits for {knot.standing(key).words}{knot.at(key)}" for key in others]
    return Claim(
        summary=f"{names} wait for a key of the store{knot.at(waiting[0])} that nobody sets"
        + (f": {several(ends)}" if ends else ""),
        evidence=knot.edge_evidence(),
        advice=(
            "Set the key before waiting for those who read it; compare the names of the keys that are set and read.",
        ),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, others or waiting)),
    )


def _environment(knot: Knot, pid: int) -> str:
    kept = knot.case.processes[pid].environment or {}
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return f"{knot.case.role(pid).name} (pid {pid}): " + (
        " ".join(f"{n}={kept[n]}" for n in names if n in kept) or "no environment"
    )
