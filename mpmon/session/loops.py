"""The tasks of event loops, read from processes with a thread that is in a loop and has run since the last reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.loops import SLEEP, user_frame
from mpmon.diagnosis.stacks.frames import in_call
from mpmon.model import ProbeReport, Task, Unknown
from mpmon.probes.aside import in_turn
from mpmon.probes.files import Proc
from mpmon.session.look import Look

if TYPE_CHECKING:
    from mpmon.probes.loops import Loop

MOST_PROCESSES = 32
"""Most processes read in one round."""

NO_TIME = "there was no time to read the tasks of its event loop; observe longer (--for)"


def ask_loops(
    proc: Proc, looks: Mapping[int, Look], renewed: Iterable[int], now: Callable[[], float], until: float
) -> list[ProbeReport]:
    """Read the tasks of the processes `renewed` by a look, as time allows; `until` is in seconds since the epoch."""
    running = {pid: _loops(looks[pid]) for pid in renewed}
    for pid, ran in running.items():
        if not ran:
            looks[pid].tasks, looks[pid].tasks_problem, looks[pid].loops_ran = (), None, {}
    asked = [pid for pid, ran in running.items() if ran and (None in ran.values() or looks[pid].loops_ran != ran)]
    if not asked:
        return []
    from mpmon.probes.interpreter import tasks

    started = now()
    questions = {pid: {"loops": frozenset(running[pid])} for pid in asked[:MOST_PROCESSES]}
    answers = in_turn(tasks.read_tasks, proc, questions) if started < until else {}
    for pid in asked:
        look, found = looks[pid], answers.get(pid)
        if not isinstance(found, tasks.Reading):
            reason = NO_TIME if found is None else f"memory cannot be read: {found.strerror}"
            found = tasks.Reading(unknown=Unknown(table="tasks", pid=pid, reason=reason))
        look.tasks, look.tasks_problem = found.tasks, found.unknown
        look.loops_ran = {} if found.unknown else running[pid]
    _note_polls(proc, {pid: looks[pid] for pid in asked if looks[pid].tasks})
    problem = next((row.reason for pid in asked if (row := looks[pid].tasks_problem)), None)
    return [ProbeReport(name="tasks", ok=problem is None, seconds=round(now() - started, 4), problem=problem)]


def _note_polls(proc: Proc, looks: Mapping[int, Look]) -> None:
    """What tasks that pause poll for, as their sources say; nothing that one leads to matters if it only reports."""
    from mpmon.probes.loops import loops_around

    places = {
        pid: {row.object: place for row in look.tasks if (place := _pauses_at(row))} for pid, look in looks.items()
    }
    asked = {pid: {"places": tuple(dict.fromkeys(rows.values()))} for pid, rows in places.items() if rows}
    for pid, loops in (in_turn(loops_around, proc, asked) if asked else {}).items():
        if isinstance(loops, dict):
            found = {name: loops[place] for name, place in places[pid].items() if place in loops}
            looks[pid].tasks = tuple(
                _with_loop(row, found[row.object]) if row.object in found else row for row in looks[pid].tasks
            )


def _with_loop(row: Task, loop: Loop) -> Task:
    reaches = () if loop.only_reports else row.reaches
    return replace(row, reaches=reaches, only_reports=loop.only_reports, polls_for=loop.polls_for)


def _pauses_at(row: Task) -> tuple[str, int] | None:
    """File and line of the user's code in which a task sleeps, or waits with a time limit."""
    frame = user_frame(row) if row.waits == SLEEP or row.timed else None
    return (frame.file, frame.line) if frame else None


def _loops(look: Look) -> dict[int, float | None]:
    """The threads that are in an event loop, and when each last ran."""
    ran = {row.tid: row.ran_at for row in look.blocked}
    return {row.tid: ran.get(row.tid) for row in look.stacks or () if in_call(row, TURNS)}
