"""Fewer ranks came than the world size, or they look for each other in the wrong place.

What it looks like: ranks stand in `init_process_group` or wait for a key of the store.
Why: a rank was never started or died before, WORLD_SIZE is wrong, MASTER_ADDR or MASTER_PORT differ.
What to do: count the ranks; compare MASTER_ADDR, MASTER_PORT and WORLD_SIZE in their environments.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "rendezvous"


def claim(knot: Knot) -> Claim | None:
    """The chain ends in a rank that waits for others to come."""
    waiting = [key for key in knot.closed.members if knot.standing(key).kind is Wait.RENDEZVOUS]
    if not waiting or knot.ending not in (Ending.NOBODY, Ending.OUTSIDE, Ending.OPEN, Ending.CYCLE):
        return None
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


def _environment(knot: Knot, pid: int) -> str:
    kept = knot.case.processes[pid].environment or {}
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return f"{knot.case.role(pid).name} (pid {pid}): " + (
        " ".join(f"{n}={kept[n]}" for n in names if n in kept) or "no environment"
    )
