"""A rank died, and the others wait for it.

What it looks like: ranks stand in a collective or in the rendezvous; a sibling of theirs has ended and nobody told them.
Why: out of memory, a crash, an exception on one rank; a child it had forked may keep its sockets open.
What to do: look for its traceback or the out-of-memory killer; start ranks with torchrun, which ends the others.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "rank-dead"


def claim(knot: Knot) -> Claim | None:
    """Ranks wait for a process that ended."""
    if knot.ending is not Ending.GONE or knot.standing().kind not in (Wait.COLLECTIVE, Wait.RENDEZVOUS):
        return None
    names = several([f"pid {gone.pid} ({gone.how})" for gone in knot.gone])
    waiting = [knot.case.role(key[0]).name for key in knot.closed.members if knot.standing(key).kind is Wait.COLLECTIVE]
    return Claim(
        summary=f"a rank ended: {names}; {several(waiting) or knot.role()} wait for it in {knot.standing().words}",
        evidence=tuple(f"pid {gone.pid} is a zombie: {gone.how}" for gone in knot.gone),
        advice=(
            "Look for its traceback, or for the out-of-memory killer (dmesg).",
            "torchrun ends the others by itself.",
        ),
        certainty=Certainty.LIKELY,
        suspects=tuple(knot.case.dead_suspect(gone.pid) for gone in knot.gone),
    )
