"""Processes wait for each other in a cycle.

What it looks like: each holds what the next one waits for: locks taken in opposite order, or both ends of pipes and queues.
What to do: take locks in one order everywhere; use one lock; never block on both directions of a pipe.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "lock-cycle"

_LOCKS = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.MUTEX})
_HELD = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.MUTEX, Wait.PIPE_READ, Wait.PIPE_WRITE, Wait.QUEUE_GET, Wait.QUEUE_PUT,
                   Wait.PROCESS_EVENT, Wait.SOCKET})  # fmt: skip


def claim(knot: Knot) -> Claim | None:
    """A cycle of several processes."""
    pids = list(dict.fromkeys(key[0] for key in knot.roots))
    if knot.ending is not Ending.CYCLE or len(pids) < 2:
        return None
    if not all(knot.standing(key).kind in _HELD for key in knot.roots):
        return None
    steps = [f"{knot.case.role(key[0]).name} waits for {_need(knot, key)}{_at(knot, key)}" for key in knot.roots]
    return Claim(
        summary=f"{several([knot.case.role(pid).name for pid in pids])} wait for each other: {'; '.join(steps)}",
        evidence=tuple(need.evidence for key in knot.roots if (need := knot.graph.node(key).need) and need.evidence),
        advice=(
            "Take the locks in the same order everywhere, or use one lock."
            if all(knot.standing(key).kind in _LOCKS for key in knot.roots)
            else "Let one side read while the other writes: close what is not needed, or use threads or communicate().",
        ),
        certainty=Certainty.PROVED,
    )


def _need(knot: Knot, key: tuple[int, int]) -> str:
    need = knot.graph.node(key).need
    return need.words if need else "it"


def _at(knot: Knot, key: tuple[int, int]) -> str:
    place = knot.case.place(key)
    return f" at {place}" if place else ""
