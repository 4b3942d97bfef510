"""What the loops of tasks that compute carry from turn to turn: see `probes.carried`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

import msgspec

from mpmon.diagnosis.stacks.frames import bare, is_user
from mpmon.diagnosis.stacks.waits import context
from mpmon.model import SOURCE_NOT_KNOWN, Frame, Stack
from mpmon.probes.aside import in_turn
from mpmon.probes.files import Proc
from mpmon.session.look import Look

Place: TypeAlias = "tuple[int, str, int]"
"""Process, file and line."""

Carried: TypeAlias = "dict[Place, tuple[str, ...] | None]"
"""What the loops around a place carry; `None` if there are none."""

MOST_CALLS = 12
"""Calls of a task that are looked at, outermost first: what is further in begins anew each time."""

MOST_PLACES = 1024


def note_carried(proc: Proc, looks: Mapping[int, Look], renewed: Iterable[int], known: Carried) -> None:
    """Note it in the looks just made; each place is read once."""
    if len(known) > MOST_PLACES:
        known.clear()
    found = {pid: {row.tid: list(_of_task(row)) for row in _computing(looks[pid])} for pid in renewed}
    wanted = {
        pid: tuple({
            (frame.file, frame.line): None
            for frames in tasks.values() for frame in frames if (pid, frame.file, frame.line) not in known
        })
        for pid, tasks in found.items()
    }  # fmt: skip
    _read(proc, {pid: places for pid, places in wanted.items() if places}, known)
    for pid, tasks in found.items():
        if tasks:
            look = looks[pid]
            look.stacks = tuple(
                _noted(row, tasks[row.tid], known) if row.tid in tasks else row for row in look.stacks or ()
            )
            look.carrying = frozenset(row.tid for row in look.stacks if any(frame.carried for frame in row.frames))


def forget(known: Carried, pid: int) -> None:
    """Drop what is known of a process that has ended: another one may get its pid."""
    for place in [place for place in known if place[0] == pid]:
        del known[place]


def _computing(look: Look) -> Iterator[Stack]:
    """The stacks of threads that were running at the previous look, too, in a task."""
    return (row for row in look.stacks or () if row.tid in look.running and context(row))


def _of_task(stack: Stack) -> Iterator[Frame]:
    """The outermost calls of the user's in the task; the line of a comprehension is that of the function around it."""
    found = context(stack)
    calls = reversed(stack.frames[: found[1]]) if found else ()
    return islice(
        (frame for frame in calls if is_user(frame.file) and not bare(frame.function).startswith("<")), MOST_CALLS
    )


def _read(proc: Proc, wanted: Mapping[int, tuple[tuple[str, int], ...]], known: Carried) -> None:
    if not wanted:
        return
    from mpmon.probes.carried import carried

    answers = in_turn(carried, proc, {pid: {"places": places} for pid, places in wanted.items()})
    for pid, places in wanted.items():
        rows = answers.get(pid)
        known.update(
            {(pid, *place): rows.get(place) if isinstance(rows, dict) else SOURCE_NOT_KNOWN for place in places}
        )


def _noted(stack: Stack, frames: Iterable[Frame], known: Carried) -> Stack:
    inside = {id(frame): known.get((stack.pid, frame.file, frame.line)) for frame in frames}
    noted = (
        msgspec.structs.replace(frame, carried=names) if (names := inside.get(id(frame))) is not None else frame
        for frame in stack.frames
    )
    return msgspec.structs.replace(stack, frames=tuple(noted))
