"""One rank is stuck outside the collective in which the others wait (loading, checkpoint, I/O).

What it looks like: all ranks but one are in a collective, or in `rpc.shutdown`; the remaining one sleeps, writes a file or
computes.
What to do: look at its line; bound its I/O; do not make ranks wait unnecessarily.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.parts import Part, part, waiting_for_rank
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "straggler"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """The root is a rank outside the collective that the others are in, or a process that serves such a rank."""
    if part(stuck) is not Part.RANK:
        return None
    others = waiting_for_rank(stuck)
    words = stuck.wait_state(others[0]).words
    spins = stuck.motion() is Motion.BUSY_LOOP
    lags = [lag for key in others if (lag := stuck.job.numbers.lag(key[0])) and stuck.root in lag.targets]
    return Match(
        summary=f"{stuck.role()} has been {stuck.has_been()}, while {len(others)} other "
        f"{'ranks wait' if len(others) > 1 else 'rank waits'} for it in {words}",
        evidence=(
            *(lag.words for lag in lags), f"{stuck.role()} is the only one outside {words}",
            *([stuck.burning()] if spins else ()), *_in_kernel(stuck), *stuck.edge_evidence(),
        ),
        advice=(
            *(("Give the call a timeout: socket.settimeout(), requests.get(timeout=…).",) if stuck.outside else ()),
            f"Look{stuck.at() or ' at the line'} of {stuck.role()}; the others wait as expected.",
            "init_process_group(timeout=…) turns such a wait into an error; bound the work the rank does meanwhile.",
        ),
        certainty=_certainty(stuck, proved=any(lag.exact for lag in lags)), tells_of=frozenset(others),
    )  # fmt: skip


def _in_kernel(stuck: StuckSet) -> tuple[str, ...]:
    """What the kernel says of a wait for somebody outside of the job."""
    blocked = stuck.blocked() if stuck.outside else None
    if blocked is None:
        return ()
    return (f"system call {blocked.syscall}, kernel function {blocked.wchan}, state {blocked.state}",)


def _certainty(stuck: StuckSet, *, proved: bool) -> Certainty:
    if stuck.motion() is Motion.BUSY_LOOP and stuck.context() is None:
        return Certainty.POSSIBLE
    return Certainty.PROVED if proved else Certainty.LIKELY
