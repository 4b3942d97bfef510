"""Each process's status, in a word and a line, for lists and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from sys import intern
from typing import NamedTuple

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.edges.dead import death
from mpmon.diagnosis.findings import Finding, ProcessView
from mpmon.diagnosis.graph import Graph, Status
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import Role
from mpmon.diagnosis.stuck_set import doing, stands_since, until
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


def process_views(case: Case, graph: Graph, findings: tuple[Finding, ...]) -> tuple[ProcessView, ...]:
    """One view per process, by pid; the view of an unchanged process is reused."""
    suspects = {suspect.pid for finding in findings[:1] for suspect in finding.suspects}
    before: _Known = case.memory.last("views") or _Known(0, suspects, case.roles, {}, set())
    again = _to_think_about(case, before, suspects)
    some = len(again) < len(case.processes)
    now = _Known(case.history.rounds, suspects, case.roles, *((before.views, before.awake) if some else ({}, set())))
    for process in again:
        reasons = _reasons(case, graph, process, suspects)
        known = before.views.get(process.pid)
        same = known is not None and all(map(is_, known[0], reasons))
        now.views[process.pid] = known if known and same else (reasons, _view(case, graph, suspects, process))
        key = (process.pid, process.pid)
        if case.motion(key) is Motion.NOT_SCHEDULED and not until(case, key):
            now.awake.discard(process.pid)
        else:
            now.awake.add(process.pid)
    case.memory.note("views", now)
    return (*(now.views[row.pid][1] for row in case.snapshot.processes), *_last(case))


def _to_think_about(case: Case, before: _Known, suspects: set[int]) -> Sequence[Process]:
    stirred = case.history.stirred
    follows = before.round == case.history.rounds - 1 and before.roles is case.roles and before.suspects == suspects
    if not follows or stirred is None:
        return case.snapshot.processes
    return [case.processes[pid] for pid in stirred | before.awake if pid in case.processes]


def _last(case: Case) -> Iterator[ProcessView]:
    """In a job that has ended: the processes that ended last, so the last snapshot shows how."""
    if any(not process.ended for process in case.snapshot.processes):
        return
    for row in case.snapshot.exits:
        role = case.history.last_roles.get(row.pid)
        if role and row.pid not in case.processes and case.now - row.seen_at <= LAST_S:
            yield ProcessView(
                pid=row.pid, role=role.name, rank=role.rank, local_rank=role.local_rank, world_size=role.world_size,
                parent=role.parent if role.parent is not None else row.process.ppid, target_known=role.target_known,
                does=death(case, row.pid).how, mood="dead",
            )  # fmt: skip


def _reasons(case: Case, graph: Graph, process: Process, suspects: set[int]) -> tuple[object, ...]:
    """All inputs of a view, to be compared by identity."""
    key = (process.pid, process.pid)
    life = case.history.lives.get(process.key)
    past, motion, status = case.past(key), case.motion(key), graph.node(key).status
    # A working process's view shows no time, so it may run without a new view: among 256 processes that wake every half
    # second, all but a few.
    works = status is Status.LIVE and process.pid not in suspects and (key in case.blocked or key in case.stacks)
    return (
        process,
        past.looks if past and works else past,
        case.blocked.get(key),
        case.stacks.get(key),
        case.standing(key),
        motion,
        status,
        intern(until(case, key)),
        case.roles.get(process.pid),
        process.pid in suspects,
        life is None or life.rate == 0.0,
        life if life and life.rate else None,
    )


def _view(case: Case, graph: Graph, suspects: set[int], process: Process) -> ProcessView:
    role = case.role(process.pid)
    key = (process.pid, process.pid)
    mood = _mood(case, graph, process, suspects)
    return ProcessView(
        pid=process.pid, role=role.name, rank=role.rank, local_rank=role.local_rank, world_size=role.world_size,
        parent=role.parent if role.parent is not None else process.ppid if process.ppid in case.processes else None,
        target_known=role.target_known,
        cpu_percent=_cpu_percent(case, process), does=_does(case, process, mood), mood=mood,
        still_since=stands_since(case, key) if case.past(key) and mood != "working" else None,
    )  # fmt: skip


def _mood(case: Case, graph: Graph, process: Process, suspects: set[int]) -> str:
    key = (process.pid, process.pid)
    if process.pid in suspects:
        return "suspect"
    if process.ended:
        return "dead"
    if process.stopped:
        return "stopped"
    if key not in case.blocked and key not in case.stacks:
        return "working" if case.motion(key) is Motion.PROGRESSING else ""
    return _MOODS[graph.node(key).status]


def _does(case: Case, process: Process, mood: str) -> str:
    key = (process.pid, process.pid)
    if mood == "idle":
        return f"idle, waits for {case.standing(key).words}"
    if key not in case.blocked and key not in case.stacks and not process.ended:
        return ""
    return doing(case, key)


def _cpu_percent(case: Case, process: Process) -> float | None:
    """Percent of one core since the previous round, from the threads' run time."""
    life = case.history.life(process)
    if life is None or life.rate is None:
        return None
    return round(life.rate * 100, 1)
