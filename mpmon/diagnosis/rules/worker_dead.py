"""A worker died and somebody waits for it for ever.

What it looks like: the waiter stands in a queue, a pool or a pipe; the process that had to answer has ended (killed,
out of memory, a crash), and nobody told the waiter.
Why: a plain multiprocessing queue does not notice that its producer is gone.
What to do: look for the out-of-memory killer (`dmesg`), lower `num_workers` or the batch, watch `Process.sentinel` beside
the queue, use `ProcessPoolExecutor`, which raises BrokenProcessPool.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.mates import crashed_mates
from mpmon.diagnosis.needs.dead import advice_on, death, did, evidence_of, replaced
from mpmon.diagnosis.needs.servants import pool_workers
from mpmon.diagnosis.parts import Loss, loss
from mpmon.diagnosis.responsibility import polled_for
from mpmon.diagnosis.words import several

CAUSE = "worker-dead"
NEEDS = frozenset({"stacks"})

_NOTICE = (
    "To notice such a death: ProcessPoolExecutor raises BrokenProcessPool; for processes of your own wait for "
    "Process.sentinel too (multiprocessing.connection.wait)."
)


def claim(knot: Knot) -> Claim | None:
    """The chain ends in a process that ended."""
    if knot.ending is Ending.NOBODY:
        return _replaced(knot)
    if knot.ending is Ending.LEAF:
        return _polled_for(knot)
    if knot.ending is Ending.CYCLE:
        return _beside_others(knot)
    if loss(knot) is not Loss.WORK:
        return None
    pids = [gone.pid for gone in knot.gone]
    names = several([f"{knot.case.role(gone.pid).name} (pid {gone.pid}) {did(gone.how)}" for gone in knot.gone])
    return Claim(
        summary=f"{names}, and {knot.who_waits() or f'{knot.role()} is {knot.doing()}'}",
        evidence=(*evidence_of(knot.case, pids), *knot.edge_evidence()),
        advice=(*advice_on(knot.case, pids), _NOTICE),
    )


def _beside_others(knot: Knot) -> Claim | None:
    """A master and one of its workers wait for each other's messages, and another worker has crashed at its work."""
    pids = crashed_mates(knot)
    if not pids:
        return None
    names = several([f"{knot.case.role(pid).name} (pid {pid}) {did(death(knot.case, pid).how)}" for pid in pids])
    steps = [f"{knot.case.role(key[0]).name} for {knot.waits_for(key)}{knot.at(key)}" for key in knot.roots]
    return Claim(
        summary=f"{names}, and what it had to do was probably lost with it: those that are left wait for each other, "
        f"{several(steps)}",
        evidence=(*evidence_of(knot.case, pids), *knot.edge_evidence()),
        advice=(
            *advice_on(knot.case, pids),
            "Whoever notices that a worker is gone must give the work it had to another one.",
        ),
    )


def _polled_for(knot: Knot) -> Claim | None:
    """Somebody looks again and again for a file, a flag, a counter in shared memory, and one that may have brought it crashed."""
    pids = polled_for(knot)
    if not pids:
        return None
    names = several([f"{knot.case.role(pid).name} (pid {pid}) {did(death(knot.case, pid).how)}" for pid in pids])
    return Claim(
        summary=f"{names}, and {knot.role()} has been {knot.has_been()}, probably for something that it did not bring",
        evidence=evidence_of(knot.case, pids),
        advice=(*advice_on(knot.case, pids), _NOTICE),
        certainty=Certainty.POSSIBLE,
    )


def _replaced(knot: Knot) -> Claim | None:
    """A pool starts a new worker for one that died; the task of the dead one is lost, and its pid forgotten."""
    if knot.nobody is None or knot.nobody.reason is not Absent.WORKER_REPLACED:
        return None
    found = replaced(knot.case, pool_workers(knot.case, knot.root[0])) if knot.root else None
    if found is None:
        return None
    by_number = f"by the number in its name there was one more before pid {found.successor}"
    by_start = f"pid {found.successor} was started {found.apart_s or 0.0:.1f} s after pid {found.first}"
    return Claim(
        summary=f"{knot.role()} waits for {knot.standing().words}, but a worker of its pool died: pid {found.successor} was "
        "started in its place, and the task is lost",
        evidence=(
            f"{by_number if found.apart_s is None else by_start}, and all pool workers wait for work",
            *(f"pid {gone} is missing between its siblings' pids: probably the dead worker's" for gone in found.dead),
        ),
        advice=(
            "Look for the reason: the job's log, or dmesg -T | grep -i 'killed process' (out of memory).",
            "Use ProcessPoolExecutor, which notices such a death and raises BrokenProcessPool.",
        ),
        certainty=Certainty.POSSIBLE,
    )
