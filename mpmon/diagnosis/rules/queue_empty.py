"""Consumers wait for an item, and all producers are gone or done.

What it looks like: a process stands in `get` of a queue, the pipe is empty, and nobody else can write to it.
Why: a producer died, or ended without a last item that says so.
What to do: put a sentinel for each consumer in a `finally`; use `get(timeout=…)` and check that producers are alive.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "queue-empty"


def claim(knot: Knot) -> Claim | None:
    """A reader of a queue or pipe without a living writer."""
    if knot.ending not in (Ending.GONE, Ending.NOBODY) or knot.root is None:
        return None
    if knot.standing().kind not in (Wait.QUEUE_GET, Wait.PIPE_READ, Wait.PROCESS_EVENT):
        return None
    names = several([f"{knot.case.role(gone.pid).name} (pid {gone.pid}, {gone.how})" for gone in knot.gone])
    who = f"its producer {names} is gone" if names else "nobody is left who could put anything"
    place = knot.place()
    return Claim(
        summary=f"{knot.role()} waits for {knot.standing().words}{f' at {place}' if place else ''}, but {who}",
        evidence=(*(f"pid {gone.pid} {gone.how}" for gone in knot.gone), *knot.edge_evidence()),
        advice=("Look for the producer's traceback or the out-of-memory killer; put a sentinel in a finally.",),
        suspects=tuple(knot.case.dead_suspect(gone.pid) for gone in knot.gone) or None,
    )
