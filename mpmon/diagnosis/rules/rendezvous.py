"""Fewer ranks came than the world size, or they look for each other in the wrong place.

What it looks like: ranks stand in `init_process_group` or wait for a key of the store.
Why: a rank was never started or died before, WORLD_SIZE is wrong, MASTER_ADDR, MASTER_PORT or `init_method` differ, or the
names of keys do: a prefix with the number of an attempt or of an epoch that one rank counts differently.
What to do: count the ranks; compare MASTER_ADDR, MASTER_PORT and WORLD_SIZE in their environments, `init_method`, and what
goes into the names of keys and prefixes.
"""

from __future__ import annotations

import re
from collections import Counter

from mpmon.diagnosis.collectives import differing
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "rendezvous"
NEEDS = frozenset({"stacks", "processes"})


_THIS_MACHINE = re.compile(r"\blocalhost\b|\[?::1\]?(?=:)")
"""Other names of 127.0.0.1."""


def claim(knot: Knot) -> Claim | None:
    """The chain ends in a rank that waits for others to come."""
    waiting = knot.members_in(Wait.RENDEZVOUS)
    if not waiting:
        return _key_never_set(knot)
    if knot.ending not in (Ending.NOBODY, Ending.OUTSIDE, Ending.OPEN, Ending.CYCLE):
        return None
    gathering = _gathering(knot) or waiting
    if astray := _elsewhere(knot, gathering) or _with_other_values(knot, gathering):
        return astray
    names = several([knot.case.role(key[0]).name for key in waiting])
    why = knot.nobody.why if knot.nobody else knot.outside.who if knot.outside else "the others"
    starters = tuple(knot.case.suspect((pid, pid)) for pid in (knot.nobody.blame if knot.nobody else ()))
    return Claim(
        summary=f"{names} wait{'s' if len(waiting) == 1 else ''} in {knot.standing(waiting[0]).words}: {why}",
        evidence=tuple(_environment(knot, key[0]) for key in waiting),
        advice=("Start the missing rank, or correct WORLD_SIZE.", "Compare MASTER_ADDR and MASTER_PORT of all ranks."),
        certainty=Certainty.LIKELY,
        suspects=starters or tuple(map(knot.case.suspect, waiting)),
    )


def _gathering(knot: Knot) -> list[tuple[int, int]]:
    """All ranks that have come to the rendezvous, whether they are known to wait for each other or not; none where two have
    the same number, since these are of two jobs.
    """
    ranks = [(pid, pid) for pid, role in knot.case.roles.items() if role.kind == "rank" and knot.case.is_alive(pid)]
    found = [key for key in ranks if knot.standing(key).kind is Wait.RENDEZVOUS]
    numbers = [knot.case.role(pid).rank for pid, _ in found]
    return found if len(set(numbers)) == len(numbers) and None not in numbers else []


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
        evidence=tuple(f"{knot.case.role(pid).name} (pid {pid}): {address}" for (pid, _), address in addresses.items()),
        advice=("Give all ranks the same init_method, or the same MASTER_ADDR and MASTER_PORT.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )


def _with_other_values(knot: Knot, waiting: list[tuple[int, int]]) -> Claim | None:
    """Ranks that wait for each other at the same line, some of them with another value at hand than most: they look for the
    others under another name.  Rank 0 alone serves the store, so that it has values of its own by right.
    """
    if len({str(knot.case.place(key)) for key in waiting}) > 1:
        return None
    waiting = sorted(waiting, key=lambda key: (_rank(knot, key), key))
    found = differing(waiting, knot.case)
    if found and [_rank(knot, key) for key in found[0]] == [0]:
        found = differing(waiting[1:], knot.case)
    if found is None:
        return None
    odd, variable = found
    names = several([knot.case.role(key[0]).name for key in odd])
    everybody = several([knot.case.role(key[0]).name for key in waiting])
    return Claim(
        summary=f"{everybody} wait for each other in {knot.standing(waiting[0]).words}{knot.at(waiting[0])}, but {names} "
        f"with another `{variable}` than most",
        evidence=(f"the local variable `{variable}` differs on {names}", *knot.edge_evidence()),
        advice=(f"Give all ranks the same `{variable}`, where it goes into a prefix or a key of the store.",),
        certainty=Certainty.LIKELY,
        suspects=tuple(map(knot.case.suspect, odd)),
    )


def _rank(knot: Knot, key: tuple[int, int]) -> int:
    number = knot.case.role(key[0]).rank
    return 1 << 30 if number is None else number


def _address(knot: Knot, pid: int) -> str | None:
    """Where it looks for the others: the argument of `init_process_group`, else the environment."""
    stack = knot.case.stacks.get((pid, pid))
    given = (frame.known.get("init_method") for frame in stack.frames if frame.known) if stack else ()
    if (method := next(filter(None, given), None)) and method != "env://":
        return _THIS_MACHINE.sub("127.0.0.1", method)
    kept = knot.case.processes[pid].environment or {}
    if not {"MASTER_ADDR", "MASTER_PORT"} <= set(kept):
        return None
    return _THIS_MACHINE.sub("127.0.0.1", f"{kept['MASTER_ADDR']}:{kept['MASTER_PORT']}")


def _key_never_set(knot: Knot) -> Claim | None:
    """Everybody who could set a key of the store waits, for the key or for those who wait for it."""
    waiting = knot.members_in(Wait.STORE_KEY)
    if not waiting or knot.ending not in (Ending.OPEN, Ending.CYCLE):
        return None
    others = [key for key in knot.closed.members if key not in waiting]
    if any(knot.standing(key).kind is Wait.COLLECTIVE for key in others):
        return None
    if not others and (astray := _with_other_values(knot, waiting)):
        return astray
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
