"""One rank is elsewhere (loading, checkpoint, I/O), and the others wait for it in a collective.

What it looks like: all ranks but one stand in a collective, or in `rpc.shutdown`; that one sleeps, writes a file or computes.
What to do: look at its line; bound its I/O; let only that rank's peers wait that must.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.parts import Part, part, waiting_for_rank
from mpmon.diagnosis.progress.motion import Motion

CAUSE = "straggler"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """The root is a rank outside of the collective the others are in, or a process that serves such a rank."""
    if part(knot) is not Part.RANK:
        return None
    others = waiting_for_rank(knot)
    words = knot.standing(others[0]).words
    spins = knot.motion() is Motion.SPINNING
    lags = [lag for key in others if (lag := knot.case.numbers.lag(key[0])) and knot.root in lag.targets]
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}, while {len(others)} other "
        f"{'ranks wait' if len(others) > 1 else 'rank waits'} for it in {words}",
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
