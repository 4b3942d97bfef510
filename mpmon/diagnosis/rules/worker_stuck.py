"""A DataLoader worker, pool worker or other child process is stuck at one place in its code.

What it looks like: the trainer waits for the next batch (or a pool's result), one worker's stack ends in the dataset's code
and has not changed, its siblings wait for work. Or a program waits for another process that it started.
Why: a download that backs off, a lock in a library, a loop that never finds what it looks for, a file that does not open.
What to do: look at the worker's line; `num_workers=0` shows the same in the trainer; give the blocking call a timeout.
`DataLoader(timeout=…)` turns the hang into an error.
"""

from __future__ import annotations

from mpmon.diagnosis.advice.stands import for_standing
from mpmon.diagnosis.criteria.parts import Part, part
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.responsibility.parties import absent_party
from mpmon.diagnosis.responsibility.tasks import is_client, unfinished_tasks
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet, doing, stands_since

CAUSE = "worker-stuck"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """The root is a worker inside the code it was asked to run, or such code waits for the clients that requested it."""
    if (tasks := unfinished_tasks(stuck)) and not absent_party(stuck):
        return _wait_for_clients(stuck, tasks)
    if part(stuck) is not Part.WORKER:
        return None
    spins, signal = stuck.motion() is Motion.BUSY_LOOP, _signal(stuck)
    return Match(
        summary=f"{stuck.role()} {'blocks the SIGTERM that was to end it, and ' if signal else ''}has been {stuck.has_been()}"
        f"{stuck.in_detail()}",
        evidence=(_moves(stuck), *signal, *stuck.edge_evidence()),
        advice=(_UNBLOCK,) if signal else _advice(stuck),
        certainty=Certainty.POSSIBLE if spins and stuck.context() is None else Certainty.LIKELY,
    )


def _advice(stuck: StuckSet) -> tuple[str, ...]:
    of_loader = stuck.kind() == LOADER_WORKER
    waits = of_loader and stuck.motion() is Motion.NOT_SCHEDULED
    return (
        *for_standing(stuck),
        *(("num_workers=0 runs it in the trainer, where it is easier to watch.",) if of_loader else ()),
        *(("DataLoader(timeout=60) turns such a wait into an error.",) if waits else ()),
    )


_UNBLOCK = (
    "Unblock SIGTERM in it: a program inherits the blocked signals of the thread that starts it (restore_signals does not "
    "change them), so start it outside of pthread_sigmask(SIG_BLOCK, …); kill() ends it all the same."
)


def _signal(stuck: StuckSet) -> tuple[str, ...]:
    """Evidence that it was sent SIGTERM but blocks it; empty if it was not."""
    process = stuck.job.processes.get(stuck.root[0]) if stuck.root else None
    if process is None or not process.holds_off_term:
        return ()
    return (f"SIGTERM was sent to pid {process.pid}, which blocks it: ShdPnd and SigBlk of /proc/{process.pid}/status",)


def _wait_for_clients(stuck: StuckSet, tasks: list[ThreadKey]) -> Match:
    first = tasks[0]
    lasts = age(stuck.job.now - stands_since(stuck.job, first))
    asked = dict.fromkeys(key[0] for key in stuck.closed.core if key not in tasks and is_client(stuck, key))
    clients, others = stuck.job.names(asked), several(_names(stuck, tasks[1:]))
    return Match(
        summary=f"{stuck.job.name(first[0])} has been {doing(stuck.job, first, lasts)}, in a task of {clients}"
        f"{f', and so {_have(tasks[1:])} {others}' if others else ''}: only {clients} could answer, but "
        f"{'it waits' if len(asked) == 1 else 'they wait'} for the end of the task",
        evidence=stuck.edge_evidence(),
        advice=("A task cannot ask the process that waits for it: pass everything it needs with the task.",),
        certainty=Certainty.LIKELY,
    )


def _have(keys: list[ThreadKey]) -> str:
    return "have" if len(keys) > 1 else "has"


def _names(stuck: StuckSet, keys: list[ThreadKey]) -> list[str]:
    return [stuck.job.role(pid).name for pid in dict.fromkeys(key[0] for key in keys)]


def _moves(stuck: StuckSet) -> str:
    if stuck.motion() is Motion.NOT_SCHEDULED:
        return f"{stuck.role()} has not run for {stuck.for_how_long()} (scheduler counters of /proc/PID/task/TID)"
    if stuck.motion() is Motion.BUSY_LOOP:
        return stuck.burning()
    return f"{stuck.role()} wakes and returns to the same line: every sample finds the same arguments"
