"""Process groups of torch: which ranks are in the one that a collective is about."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import Objects, Torn

FILE = "torch/distributed/distributed_c10d.py"

RANKS = b"_pg_group_ranks"
"""Name of that module: by process group the numbers of its members, in the job and in the group."""

NAMES = b"_pg_names"
"""Name of that module: by process group a name, the same on all ranks, since these have to make their groups in one order."""

MOST_MEMBERS = 256
"""Of a larger group nothing is said: to read it takes too long."""

LONGEST_NAME = 80


class Group(NamedTuple):
    """One process group."""

    name: str
    """Empty where it is not known."""
    members: tuple[int, ...]
    """Their numbers in the job."""


def group_at_hand(objects: Objects, frame: FrameInMemory) -> Group | None:
    """The one process group that a call in that file has at hand; `None` where that is not known."""
    if not frame.code.file.endswith(FILE):
        return None
    with suppress(Torn):
        groups = objects.named(frame.module(), RANKS)
        at_hand = frozenset(frame.variables())
        found = [row for row in (objects.pairs(groups) if groups else ()) if row[0] in at_hand]
        if len(found) == 1:
            group, numbers = found[0]
            members = sorted(objects.integer(number) for number, _ in objects.pairs(numbers, MOST_MEMBERS))
            return Group(_name(objects, frame, group), tuple(members))
    return None


def _name(objects: Objects, frame: FrameInMemory, group: int) -> str:
    with suppress(Torn):
        names = objects.named(frame.module(), NAMES)
        found = next((value for key, value in (objects.pairs(names) if names else ()) if key == group), None)
        return objects.text(found, LONGEST_NAME) if found else ""
    return ""
