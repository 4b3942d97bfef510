"""One rank is elsewhere (loading, checkpoint, I/O), and the others wait for it in a collective.

What it looks like: all ranks but one stand in a collective, or in `rpc.shutdown`; that one sleeps, writes a file or computes.
What to do: look at its line; bound its I/O; let only that rank's peers wait that must.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.waits import Wait

CAUSE = "straggler"
NEEDS = frozenset({"stacks"})

_OWN_WAITS = frozenset({Wait.PIPE_WRITE, Wait.PIPE_READ, Wait.SOCKET, Wait.POLL, Wait.FILE})
"""Waits in its own code, for somebody who is no part of the job."""

_TOGETHER = frozenset({Wait.COLLECTIVE, Wait.REMOTE_END})
"""What all ranks have to come to."""


def claim(knot: Knot) -> Claim | None:
    """The root is a rank outside of the collective the others are in, or a process that serves such a rank."""
    alone = knot.ending is Ending.NOBODY and knot.standing().kind in _OWN_WAITS
    if knot.root is None or not (knot.ending in (Ending.LEAF, Ending.OUTSIDE) or alone):
        return None
    if knot.kind() != "rank" and not (knot.kind() == "process" and _serves_a_rank(knot)):
        return None
    waiting = [key for key in knot.case.blocked if key[0] == key[1] and knot.standing(key).kind in _TOGETHER]
    others = [key for key in waiting if key[0] != knot.root[0] and knot.case.role(key[0]).kind == "rank"]
    if not others or knot.standing().kind in _TOGETHER:
        return None
    words = knot.standing(others[0]).words
    spins = knot.motion() is Motion.SPINNING
    lags = [lag for key in others if (lag := knot.case.numbers.lag(key[0])) and knot.root in lag.targets]
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}, while {len(others)} other rank{'s' if len(others) > 1 else ''} "
        f"wait for it in {words}",
        evidence=(
            *(lag.words for lag in lags), f"{knot.role()} is the only one outside of {words}",
            *([knot.burning()] if spins else ()), *knot.edge_evidence(),
        ),
        advice=(
            "Look at that line of that rank; the others are right to wait.",
            "init_process_group(timeout=…) turns such a wait into an error; bound what the rank does meanwhile.",
        ),
        certainty=_certainty(knot, proved=any(lag.exact for lag in lags)),
    )  # fmt: skip


def _certainty(knot: Knot, *, proved: bool) -> Certainty:
    if knot.motion() is Motion.SPINNING and knot.context() is None:
        return Certainty.POSSIBLE
    return Certainty.PROVED if proved else Certainty.LIKELY


def _serves_a_rank(knot: Knot) -> bool:
    """A rank on the path, itself outside of the collective, waits for the root."""
    path = knot.closed.path
    asks = path[path.index(knot.root) - 1] if knot.root in path[1:] else None
    outside = asks is not None and knot.standing(asks).kind not in _TOGETHER
    return outside and asks is not None and knot.case.role(asks[0]).kind == "rank"
