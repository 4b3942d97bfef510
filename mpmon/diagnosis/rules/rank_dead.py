"""A rank died, and the others wait for it.

What it looks like: ranks stand in a collective or in the rendezvous; a sibling of theirs has ended and nobody told them.
Why: out of memory, a crash, an exception on one rank; a child it had forked may keep its sockets open.
What to do: look for its traceback or the out-of-memory killer; start ranks with torchrun, which ends the others.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.needs.dead import advice_on, crashed_relatives, did, evidence_of
from mpmon.diagnosis.parts import Loss, loss
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "rank-dead"
NEEDS = frozenset({"stacks"})


_LAUNCHERS = (
    "Start the ranks with torchrun or torch.multiprocessing.spawn(join=True), which end the others by themselves."
)


def claim(knot: Knot) -> Claim | None:
    """Ranks wait for a process that ended."""
    if knot.ending is Ending.LEAF and knot.motion() is Motion.NAPPING and knot.kind() == "rank":
        return _polls_after_crash(knot)
    if knot.nobody and knot.nobody.reason is Absent.RANK_ENDED:
        return _without_trace(knot, knot.nobody.why)
    if loss(knot) is not Loss.RANK:
        return None
    pids = [gone.pid for gone in knot.gone]
    names = several([f"pid {gone.pid} {did(gone.how)}" for gone in knot.gone])
    waiting = [knot.case.role(key[0]).name for key in knot.closed.members if knot.standing(key).kind is Wait.COLLECTIVE]
    others = f"{several(waiting) or knot.role()} wait{'s' if len(waiting) < 2 else ''} for it"
    return Claim(
        summary=f"a rank is dead: {names}; {others} in {knot.standing().words}",
        evidence=evidence_of(knot.case, pids),
        advice=(
            *advice_on(knot.case, pids),
            _LAUNCHERS,
        ),
        certainty=Certainty.LIKELY,
    )


def _polls_after_crash(knot: Knot) -> Claim | None:
    """A rank polls for something in its own code, and a sibling that could have brought it has crashed."""
    root = knot.root or knot.goal
    processes, parent = knot.case.processes, knot.case.processes[root[0]].ppid
    crashed = [pid for pid in crashed_relatives(knot.case, root[0]) if processes[pid].ppid == parent]
    if not crashed:
        return None
    names = several([f"{knot.case.role(pid).name} (pid {pid})" for pid in crashed])
    return Claim(
        summary=f"{names} {did(knot.case.dead_suspect(crashed[0]).end or 'ended')}, and {knot.role()} has been "
        f"{knot.has_been()}, probably for something that it left behind or did not bring",
        evidence=evidence_of(knot.case, crashed),
        advice=(*advice_on(knot.case, crashed), _LAUNCHERS),
        certainty=Certainty.POSSIBLE,
    )


def _without_trace(knot: Knot, why: str) -> Claim:
    """The rank's parent has collected it: neither its pid nor its end is known any more."""
    return Claim(
        summary=f"a rank is dead: {why}; {knot.role()} waits for it in {knot.standing().words}",
        evidence=(why,),
        advice=("Look for its traceback in the job's log, and for the out-of-memory killer (dmesg).", _LAUNCHERS),
        certainty=Certainty.LIKELY,
    )
