"""Process groups of torch: which ranks are in the one that a collective is about."""

from __future__ import annotations

from contextlib import suppress

from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import Objects, Torn

FILE = "torch/distributed/distributed_c10d.py"

RANKS = b"_pg_group_ranks"
"""Name of that module: by process group the numbers of its members, in the job and in the group."""

MOST_MEMBERS = 256
"""Of a larger group nothing is said: to read it takes too long."""


def members(objects: Objects, frame: FrameInMemory) -> tuple[int, ...]:
    """The members of the one process group that a call in that file has at hand, by their numbers in the job; else nothing."""
    if not frame.code.file.endswith(FILE):
        return ()
    with suppress(Torn):
        groups = objects.named(frame.module(), RANKS)
        at_hand = frozenset(frame.variables())
        found = [numbers for group, numbers in (objects.pairs(groups) if groups else ()) if group in at_hand]
        if len(found) == 1:
            return tuple(sorted(objects.integer(number) for number, _ in objects.pairs(found[0], MOST_MEMBERS)))
    return ()
