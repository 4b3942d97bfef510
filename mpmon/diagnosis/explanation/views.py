"""Each process's status, in a word and a line, for lists and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from sys import intern
from typing import NamedTuple

from mpmon.diagnosis.edges.deaths import death
from mpmon.diagnosis.findings import Finding, ProcessView
from mpmon.diagnosis.graph import Graph, Status
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import Role
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import doing, stands_since, until
from mpmon.model import Process

_MOODS = {
    Status.IDLE: "idle",
    Status.WAITS: "waiting",
    Status.LEAF: "waiting",
    Status.HIDDEN: "waiting",
    Status.LIVE: "working",
}

LAST_S = 60.0
"""In a job that has ended, processes that ended up to this many seconds ago are shown."""


class _Known(NamedTuple):
    """The views made in a round."""

    round: int
    suspects: set[int]
    roles: dict[int, Role]
    views: dict[int, tuple[tuple[object, ...], ProcessView]]
    """By pid: all inputs of the view, and the view."""
    awake: set[int]
    """Processes whose view time alone may change: a thread that stops running counts as frozen some time later, and a
    sleep ends.
    """


def process_views(job: JobState, graph: Graph, findings: tuple[Finding, ...]) -> tuple[ProcessView, ...]:
    """One view per process, by pid; the view of an unchanged process is reused."""
    suspects = {suspect.pid for finding in findings[:1] for suspect in finding.suspects}
    before: _Known = job.memory.last("views") or _Known(0, suspects, job.roles, {}, set())
    again = _to_think_about(job, before, suspects)
    some = len(again) < len(job.processes)
    now = _Known(job.history.rounds, suspects, job.roles, *((before.views, before.awake) if some else ({}, set())))
    for process in again:
        reasons = _reasons(job, graph, process, suspects)
        known = before.views.get(process.pid)
        same = known is not None and all(map(is_, known[0], reasons))
        now.views[process.pid] = known if known and same else (reasons, _view(job, graph, suspects, process))
        key = (process.pid, process.pid)
        if job.motion(key) is Motion.NOT_SCHEDULED and not until(job, key):
            now.awake.discard(process.pid)
        else:
            now.awake.add(process.pid)
    job.memory.note("views", now)
    return (*(now.views[row.pid][1] for row in job.snapshot.processes), *_last(job))


def _to_think_about(job: JobState, before: _Known, suspects: set[int]) -> Sequence[Process]:
    stirred = job.history.stirred
    follows = before.round == job.history.rounds - 1 and before.roles is job.roles and before.suspects == suspects
    if not follows or stirred is None:
        return job.snapshot.processes
    return [job.processes[pid] for pid in stirred | before.awake if pid in job.processes]


def _last(job: JobState) -> Iterator[ProcessView]:
    """In a job that has ended: the processes that ended last, so the last snapshot shows how."""
    if any(not process.ended for process in job.snapshot.processes):
        return
    for row in job.snapshot.exits:
        role = job.history.last_roles.get(row.pid)
        if role and row.pid not in job.processes and job.now - row.seen_at <= LAST_S:
            yield ProcessView(
                pid=row.pid, role=role.name, kind=role.kind, rank=role.rank, local_rank=role.local_rank,
                world_size=role.world_size, parent=role.parent if role.parent is not None else row.process.ppid,
                target_known=role.target_known,
                does=death(job, row.pid).how, mood="dead",
            )  # fmt: skip


def _reasons(job: JobState, graph: Graph, process: Process, suspects: set[int]) -> tuple[object, ...]:
    """All inputs of a view, to be compared by identity."""
    key = (process.pid, process.pid)
    life = job.history.lives.get(process.key)
    past, motion, status = job.thread_history(key), job.motion(key), graph.node(key).status
    # A working process's view shows no time, so it may run without a new view: among 256 processes that wake every half
    # second, all but a few.
    works = status is Status.LIVE and process.pid not in suspects and (key in job.blocked or key in job.stacks)
    return (
        process,
        past.samples if past and works else past,
        job.blocked.get(key),
        job.stacks.get(key),
        job.wait_state(key),
        motion,
        status,
        intern(until(job, key)),
        job.roles.get(process.pid),
        process.pid in suspects,
        life is None or life.rate == 0.0,
        life if life and life.rate else None,
    )


def _view(job: JobState, graph: Graph, suspects: set[int], process: Process) -> ProcessView:
    role = job.role(process.pid)
    key = (process.pid, process.pid)
    mood = _mood(job, graph, process, suspects)
    return ProcessView(
        pid=process.pid, role=role.name, kind=role.kind, rank=role.rank, local_rank=role.local_rank, world_size=role.world_size,
        parent=role.parent if role.parent is not None else process.ppid if process.ppid in job.processes else None,
        target_known=role.target_known,
        cpu_percent=_cpu_percent(job, process), does=_does(job, process, mood), mood=mood,
        still_since=stands_since(job, key) if job.thread_history(key) and mood != "working" else None,
    )  # fmt: skip


def _mood(job: JobState, graph: Graph, process: Process, suspects: set[int]) -> str:
    key = (process.pid, process.pid)
    if process.pid in suspects:
        return "suspect"
    if process.ended:
        return "dead"
    if process.stopped:
        return "stopped"
    if key not in job.blocked and key not in job.stacks:
        return "working" if job.motion(key) is Motion.PROGRESSING else ""
    return _MOODS[graph.node(key).status]


def _does(job: JobState, process: Process, mood: str) -> str:
    key = (process.pid, process.pid)
    if mood == "idle":
        return f"idle, waits for {job.wait_state(key).words}"
    if key not in job.blocked and key not in job.stacks and not process.ended:
        return ""
    return doing(job, key)


def _cpu_percent(job: JobState, process: Process) -> float | None:
    """Percent of one core since the previous round, from the threads' run time."""
    life = job.history.life(process)
    if life is None or life.rate is None:
        return None
    return round(life.rate * 100, 1)
