"""Process groups of torch: the ranks in the group of a collective."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn

FILE = "torch/distributed/distributed_c10d.py"

RANKS = b"_pg_group_ranks"
"""A name in that module: for each process group, its members' ranks in the job and in the group."""

NAMES = b"_pg_names"
"""A name in that module: for each group, a name equal on all ranks, since all must make their groups in one order."""

MOST_MEMBERS = 256
"""Most members of a group that is read; reading a larger one takes too long."""

LONGEST_NAME = 80


class Group(NamedTuple):
    """One process group."""

    name: str
    """Empty if unknown."""
    members: tuple[int, ...]
    """Their ranks in the job."""


def group_at_hand(objects: Objects, frame: FrameInMemory) -> Group | None:
    """The only process group that a call in that file refers to; `None` if unknown."""
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
