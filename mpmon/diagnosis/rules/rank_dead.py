"""A rank died, and the others wait for it.

What it looks like: ranks are in a collective or in the rendezvous; another rank has ended, and they were not notified.
Why: out of memory, a crash, an exception on one rank; a child it had forked may keep its sockets open.
What to do: look for its traceback or the out-of-memory killer; start ranks with torchrun, which ends the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from mpmon.diagnosis.criteria.losses import Loss, loss
from mpmon.diagnosis.edges.dead import ended_siblings
from mpmon.diagnosis.edges.deaths import advice_on, did, evidence_of
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Exited, NoReleaser
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
        return _reaped(stuck, stuck.nobody)
    if loss(stuck) is not Loss.RANK:
        return None
    pids = [gone.pid for gone in stuck.gone]
    names = several([f"{_named(stuck, gone.pid)} {did(gone.how)}" for gone in stuck.gone])
    waiting = [stuck.job.name(key[0]) for key in stuck.closed.members if stuck.wait_state(key).kind is Wait.COLLECTIVE]
    others = f"{several(waiting) or stuck.role()} wait{'s' if len(waiting) < 2 else ''}"
    return Match(
        summary=f"{names}, and {others} {_for_them(stuck, len(pids))}",
        evidence=evidence_of(stuck.job, pids),
        advice=(*advice_on(stuck.job, pids), *_for_launcher(stuck.gone)),
        certainty=Certainty.LIKELY, tells_of=frozenset(stuck.closed.members),
    )  # fmt: skip


def _named(stuck: StuckSet, pid: int) -> str:
    """A dead rank: its number is that of the only one that is missing, where its own process tells none any more."""
    missing = stuck.job.world.missing()
    if stuck.job.role(pid).rank is None and len(stuck.gone) == 1 and count(missing) == 1:
        return f"rank {missing[0][0]} (pid {pid})"
    return f"a rank (pid {pid})" if stuck.job.role(pid).rank is None else stuck.job.full_name(pid)


def _for_them(stuck: StuckSet, count: int) -> str:
    they, wait = "it" if count == 1 else "them", stuck.wait_state()
    return f"for {they} to set {wait.words}" if wait.kind is Wait.STORE_KEY else f"for {they} in {wait.words}"


def _for_launcher(gone: Iterable[Exited]) -> tuple[str, ...]:
    """A launcher lets the others go on if a rank ends without an error."""
    return (_LAUNCHERS,) if any(row.status != 0 for row in gone) else ()


def _reaped(stuck: StuckSet, nobody: NoReleaser) -> Match:
    """The ranks' parent has reaped them: how they ended is known only if it still has their process objects."""
    waiter = stuck.root or stuck.goal
    known = [row for row in ended_siblings(stuck.job, waiter[0]) if row.pid in nobody.blame]
    advice = (*advice_on(stuck.job, [row.pid for row in known]), *_for_launcher(known))
    return Match(
        summary=f"{nobody.why}; {stuck.role()} waits for {stuck.waits_for(waiter)}",
        evidence=(nobody.why,),
        advice=advice if known else (_LOOK, _LAUNCHERS),
        certainty=Certainty.LIKELY,
    )


_LOOK = "Look for its traceback in the job's log, and for the out-of-memory killer (dmesg)."
