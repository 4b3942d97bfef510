"""What is around the calls of ranks that stay in different collectives: see `probes.nesting`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import TypeAlias

import msgspec

from mpmon.diagnosis.stacks.frames import is_user, own_frames
from mpmon.diagnosis.stacks.waits import wait_state
from mpmon.model import Frame, Stack
from mpmon.probes.aside import in_turn
from mpmon.probes.files import Proc
from mpmon.session.look import Look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.nesting import Around

Place: TypeAlias = "tuple[str, int]"
"""File and line."""

Nesting: TypeAlias = "dict[Place, Around | None]"
"""What is around a place; `None` if that cannot be told."""

MOST_WAYS = 8
"""Different stacks of ranks that are compared at most: more of them are no two groups."""

MOST_PLACES = 1024


def note_nesting(proc: Proc, looks: Mapping[int, Look], known: Nesting) -> None:
    """Note, for ranks that stay in collectives to which they came by different ways, what is around the user's calls and all
    calls from the first one on at which these ways part.
    """
    ways: defaultdict[tuple[Place, ...], list[int]] = defaultdict(list)
    for pid in (pid for look in looks.values() for pid in look.in_collective):
        ways[tuple((frame.file, frame.line) for frame in _before_collective(_main(looks[pid])))].append(pid)
    if not 2 <= len(ways) <= MOST_WAYS:
        return
    common = sum(1 for _ in takewhile(lambda places: len(set(places)) == 1, zip(*ways, strict=False)))
    if len(known) > MOST_PLACES:
        known.clear()
    for way, pids in ways.items():
        wanted = [place for index, place in enumerate(way) if index >= common or is_user(place[0])]
        _read(proc, pids[0], [place for place in wanted if place not in known], known)
        for pid in pids:
            looks[pid].stacks = tuple(_noted(row, known) if row.tid == pid else row for row in looks[pid].stacks or ())


def _main(look: Look) -> Stack:
    return next(row for row in look.stacks or () if row.tid == look.pid)


def _before_collective(stack: Stack) -> Iterator[Frame]:
    """The calls since the process began its own work that led to the collective, outermost first."""
    collective = wait_state(stack, None).frame
    return takewhile(lambda frame: frame is not collective, reversed(list(own_frames(stack))))


def _read(proc: Proc, pid: int, places: list[Place], known: Nesting) -> None:
    if places:
        from mpmon.probes.nesting import around

        found = in_turn(around, proc, {pid: {"places": places}}).get(pid)
        known.update({place: found.get(place) if isinstance(found, dict) else None for place in places})


def _noted(stack: Stack, known: Nesting) -> Stack:
    return msgspec.structs.replace(stack, frames=tuple(_with_nesting(frame, known) for frame in stack.frames))


def _with_nesting(frame: Frame, known: Nesting) -> Frame:
    found = known.get((frame.file, frame.line))
    if not found:
        return frame
    return msgspec.structs.replace(frame, loops=found.loops, tested=found.tests if is_user(frame.file) else ())
