"""Producers block in put(), and nobody consumes.

What it looks like: processes stand in `put` of a bounded queue; the consumer has ended, or waits for the producers.
What to do: keep the consumer alive (catch its exceptions), or let producers give up: `put(timeout=…)`.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "queue-full"


def claim(knot: Knot) -> Claim | None:
    """A writer of a full queue without a living reader."""
    putting = [key for key in knot.closed.members if knot.standing(key).kind is Wait.QUEUE_PUT]
    if knot.ending not in (Ending.GONE, Ending.NOBODY) or not putting:
        return None
    names = several([f"{knot.case.role(gone.pid).name} (pid {gone.pid}, {gone.how})" for gone in knot.gone])
    producers = several([knot.case.role(key[0]).name for key in putting])
    return Claim(
        summary=f"{producers} block in put(): the queue is full, and its consumer{f' {names}' if names else ''} is gone",
        evidence=(*(f"pid {gone.pid} {gone.how}" for gone in knot.gone), *knot.edge_evidence()),
        advice=("Look for the consumer's traceback; use put(timeout=…) and check that the consumer is alive.",),
        suspects=tuple(knot.case.dead_suspect(gone.pid) for gone in knot.gone) or None,
    )
