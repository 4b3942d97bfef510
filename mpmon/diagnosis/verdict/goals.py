"""The goals: the threads whose progress decides whether the job hangs, and what is too little to judge them.

A root process that is not Python is no goal: a shell or init that sleeps or waits has nothing to do, and nothing else is
known about it. The Python programs below it are goals.
"""

from __future__ import annotations

from mpmon.diagnosis.graph import Graph, Status
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import is_python, topmost_python
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.verdict.requests import serves

OPENS_GOALS = frozenset({Wait.LAUNCHER, Wait.JOIN_PROCESS, Wait.CHILD, Wait.REMOTE_END})
"""Waits for other processes to end: their main threads are then goals as well."""


def goals_of(job: JobState, graph: Graph) -> list[ThreadKey]:
    """The threads whose progress counts: the main threads of the programs, of processes whose end they wait for, and of
    ranks.
    """
    goals = [(pid, pid) for pid in _programs(job)]
    for goal in goals:
        edge = graph.node(goal).edge
        if edge and job.wait_state(goal).kind in OPENS_GOALS:
            goals += [target for target in edge.targets if isinstance(target, tuple) and target not in goals]
    return list(dict.fromkeys([*goals, *((pid, pid) for pid in job.ranks)]))


def looked_after(job: JobState, graph: Graph, goal: ThreadKey) -> list[ThreadKey]:
    """The children of a goal that polls for an unknown condition: it may be polling for their results. An event loop
    woken by its timers counts too. Of a goal that waits for nobody, whatever it does, those that wait for the end of a
    process of their own.
    """
    status, loops = graph.node(goal).status, job.wait_state(goal).kind is Wait.EVENT_LOOP
    if status not in (Status.LEAF, Status.LIVE):
        return []
    children = [(pid, pid) for pid in job.helpmates(goal[0])]
    if (status is Status.LIVE and not loops) or job.motion(goal) is not Motion.POLLING:
        children = [key for key in children if job.wait_state(key).kind in OPENS_GOALS]
    return [key for key in children if graph.node(key).status is Status.WAITS and not serves(job, key)]


def _programs(job: JobState) -> list[int]:
    """The root, or the Python programs below a root that only starts others; such a root too while it is stopped. None once it
    has ended.
    """
    root = job.snapshot.root_pid
    if not job.is_alive(root):
        return []
    if not job.role(root).starts:
        return [root]
    return [root, *_python_below(job)] if job.processes[root].stopped else _python_below(job)


def _python_below(job: JobState) -> list[int]:
    """The topmost Python processes (recognised by frames or program name): no other Python process of the job started them."""
    foreign = job.foreign
    alive = [row for row in job.snapshot.processes if not row.ended]
    is_one = {row.pid: job.has_frames(row.pid) or (row.pid not in foreign and is_python(row)) for row in alive}
    return list(topmost_python(alive, job.snapshot.root_pid, lambda row: is_one[row.pid]))


def blind(job: JobState) -> str:
    """Why nothing can be said; empty if something can."""
    root = job.snapshot.root
    ranks_left = any(map(job.is_alive, job.ranks))
    if root is None and not ranks_left:
        return "the process has ended"
    if root and root.ended and not ranks_left:
        return "the process is a zombie: it has ended, and its parent has not reaped it"
    if root and not root.ended and _without_python(job):
        return f"pid {root.pid} is not a Python process and has no Python descendants"
    seen = any(_was_seen(job, pid) for pid in job.processes)
    if not seen and job.history.rounds > 1:
        reasons = [row for row in job.snapshot.unknowns if not row.gone]
        reasons.sort(key=lambda row: (row.table != "stacks", row.pid != job.snapshot.root_pid))
        return reasons[0].reason if reasons else "no process could be read yet"
    return ""


def shows_a_stop(job: JobState) -> bool:
    """A process of the job is stopped, which anybody may read."""
    return job.is_alive(job.snapshot.root_pid) and any(row.stopped for row in job.snapshot.processes)


def _without_python(job: JobState) -> bool:
    """The root is not Python and, as far as known, has no Python descendants."""
    root = job.snapshot.root_pid
    return (job.role(root).starts or root in job.foreign) and not _python_below(job)


def _was_seen(job: JobState, pid: int) -> bool:
    """Its main thread's stack or system call could be read at least once."""
    past = job.thread_history((pid, pid))
    samples = past.samples if past else ()
    return any(sample.stack or (sample.blocked and sample.blocked.syscall) for sample in samples)
