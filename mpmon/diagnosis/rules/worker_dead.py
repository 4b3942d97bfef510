"""A worker died, and another process waits for it forever.

What it looks like: the waiter is in a queue, a pool or a pipe; the process that should answer has ended (killed, out of
memory, a crash) without the waiter noticing.
Why: a plain multiprocessing queue does not notice that its producer is gone.
What to do: look for the out-of-memory killer (`dmesg`); lower `num_workers` or the batch size; watch `Process.sentinel` as
well as the queue; use `ProcessPoolExecutor`, which raises BrokenProcessPool.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.losses import Loss, loss
from mpmon.diagnosis.edges.deaths import advice_on, death, did, evidence_of
from mpmon.diagnosis.edges.replaced import replaced
from mpmon.diagnosis.edges.servants import pool_workers
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.responsibility.ended import polled_for
from mpmon.diagnosis.stuck.crashed_siblings import crashed_mates
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "worker-dead"
NEEDS = frozenset({"stacks"})

_NOTICE = (
    "To notice such a death, wait for Process.sentinel too (multiprocessing.connection.wait), or use ProcessPoolExecutor, "
    "which raises BrokenProcessPool."
)


def match(stuck: StuckSet) -> Match | None:
    """The chain ends in a process that ended."""
    if stuck.ending is Ending.NOBODY:
        return _none_stays(stuck) or _replaced(stuck)
    if stuck.ending is Ending.LEAF:
        return _polled_for(stuck)
    if stuck.ending is Ending.CYCLE:
        return _beside_others(stuck)
    if loss(stuck) is not Loss.WORK:
        return None
    pids = [gone.pid for gone in stuck.gone]
    names = several([f"{stuck.job.full_name(gone.pid)} {did(gone.how)}" for gone in stuck.gone])
    return Match(
        summary=f"{stuck.who_waits() or f'{stuck.role()} is {stuck.doing()}'}, but {names}",
        evidence=(*evidence_of(stuck.job, pids), *stuck.edge_evidence()),
        advice=(*advice_on(stuck.job, pids), _NOTICE),
    )


def _beside_others(stuck: StuckSet) -> Match | None:
    """A master and one of its workers wait for each other's messages, and another worker has crashed while working."""
    pids = crashed_mates(stuck)
    if not pids:
        return None
    names = several([f"{stuck.job.full_name(pid)} {did(death(stuck.job, pid).how)}" for pid in pids])
    steps = [f"{stuck.job.name(key[0])} for {stuck.waits_for(key)}{stuck.at(key)}" for key in stuck.at_end]
    return Match(
        summary=f"{names}, and the work given to {'it' if len(pids) == 1 else 'them'} was probably lost: the remaining processes "
        f"wait for each other, "
        f"{several(steps)}",
        evidence=(*evidence_of(stuck.job, pids), *stuck.edge_evidence()),
        advice=(
            *advice_on(stuck.job, pids),
            "Code that detects the death of a worker must give its work to another one.",
        ),
    )


def _polled_for(stuck: StuckSet) -> Match | None:
    """A thread polls for a file, a flag or a counter in shared memory, and a process that may have had to provide it crashed."""
    pids = polled_for(stuck)
    if not pids:
        return None
    names = several([f"{stuck.job.full_name(pid)} {did(death(stuck.job, pid).how)}" for pid in pids])
    return Match(
        summary=f"{names}, and {stuck.role()} has been {stuck.has_been()}, probably for what the dead process was to provide",
        evidence=evidence_of(stuck.job, pids),
        advice=(*advice_on(stuck.job, pids), _NOTICE),
        certainty=Certainty.POSSIBLE,
    )


def _none_stays(stuck: StuckSet) -> Match | None:
    """A pool's workers end at their start, so that its tasks are never done."""
    if stuck.nobody is None or stuck.nobody.reason is not Absent.WORKERS_END:
        return None
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {stuck.wait_state().words}, but the workers of its pool end "
        "without a result, and new ones are started in their place",
        evidence=stuck.edge_evidence(),
        advice=(
            "Search the job's standard error for their tracebacks: often the pool's initializer raises an exception.",
            "Use ProcessPoolExecutor, which raises BrokenProcessPool when an initializer fails.",
        ),
        certainty=Certainty.LIKELY,
    )


def _replaced(stuck: StuckSet) -> Match | None:
    """A pool starts a new worker for one that died; the task of the dead one is lost, and its pid forgotten."""
    if stuck.nobody is None or stuck.nobody.reason is not Absent.WORKER_REPLACED:
        return None
    found = replaced(stuck.job, pool_workers(stuck.job, stuck.root[0])) if stuck.root else None
    if found is None:
        return None
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {stuck.wait_state().words}, but a worker of its pool died"
        f"{f' (probably pid {found.dead[0]})' if len(found.dead) == 1 else ''}, and its task is lost: pid {found.successor} was "
        "started in its place",
        evidence=(
            f"{found.shown_by}, and no pool worker is at work on a task",
            *(
                f"pid {gone} is missing from the sequence of its siblings' pids: probably the dead worker"
                for gone in found.dead
            ),
        ),
        advice=(
            "Look for the reason: the job's log, or dmesg -T | grep -i 'killed process' (out of memory).",
            "Use ProcessPoolExecutor, which notices such a death and raises BrokenProcessPool.",
        ),
        certainty=Certainty.POSSIBLE,
    )
