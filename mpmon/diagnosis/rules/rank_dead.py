"""A rank died, and the others wait for it.

What it looks like: ranks are in a collective or in the rendezvous; another rank has ended, and they were not notified.
Why: out of memory, a crash, an exception on one rank; a child it had forked may keep its sockets open.
What to do: look for its traceback or the out-of-memory killer; start ranks with torchrun, which ends the others.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.losses import Loss, loss
from mpmon.diagnosis.edges.deaths import advice_on, did, evidence_of
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.spans import count

CAUSE = "rank-dead"
NEEDS = frozenset({"stacks"})


_LAUNCHERS = (
    "Start the ranks with torchrun or torch.multiprocessing.spawn(join=True), which end the other ranks when one dies."
)


def match(stuck: StuckSet) -> Match | None:
    """Ranks wait for a process that ended."""
    if stuck.nobody and stuck.nobody.reason is Absent.RANK_ENDED:
        return _without_trace(stuck, stuck.nobody.why)
    if loss(stuck) is not Loss.RANK:
        return None
    pids = [gone.pid for gone in stuck.gone]
    names = several([f"{_named(stuck, gone.pid)} {did(gone.how)}" for gone in stuck.gone])
    waiting = [stuck.job.name(key[0]) for key in stuck.closed.members if stuck.wait_state(key).kind is Wait.COLLECTIVE]
    others = f"{several(waiting) or stuck.role()} wait{'s' if len(waiting) < 2 else ''} for it"
    return Match(
        summary=f"{names}, and {others} in {stuck.wait_state().words}",
        evidence=evidence_of(stuck.job, pids),
        advice=(
            *advice_on(stuck.job, pids),
            _LAUNCHERS,
        ),
        certainty=Certainty.LIKELY, tells_of=frozenset(stuck.closed.members),
    )  # fmt: skip


def _named(stuck: StuckSet, pid: int) -> str:
    """A dead rank: its number is that of the only one that is missing, where its own process tells none any more."""
    missing = stuck.job.world.missing()
    if stuck.job.role(pid).rank is None and len(stuck.gone) == 1 and count(missing) == 1:
        return f"rank {missing[0][0]} (pid {pid})"
    return f"a rank (pid {pid})" if stuck.job.role(pid).rank is None else stuck.job.full_name(pid)


def _without_trace(stuck: StuckSet, why: str) -> Match:
    """The rank's parent has reaped it: neither its pid nor how it ended is known any more."""
    return Match(
        summary=f"a rank is dead: {why}; {stuck.role()} waits for it in {stuck.wait_state().words}",
        evidence=(why,),
        advice=("Look for its traceback in the job's log, and for the out-of-memory killer (dmesg).", _LAUNCHERS),
        certainty=Certainty.LIKELY,
    )
