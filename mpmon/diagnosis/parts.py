"""What part of the job a thread at the end of a chain plays: a rank that others wait for, a worker, or the program itself.

It names the cause where nothing but the place is known, and exactly one part fits.
"""

from __future__ import annotations

from enum import Enum

from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Ending, Knot
from mpmon.diagnosis.waits import Context, Wait


class Part(Enum):
    """Of a root."""

    RANK = "a rank outside of what the others are in, or one who serves such a rank"
    WORKER = "a worker inside of the code that it was asked to run"
    PROGRAM = "the program's own code"


SERVED = frozenset({Context.DATALOADER_WORKER, Context.POOL_WORKER, Context.EXECUTOR_THREAD})

TOGETHER = frozenset({Wait.COLLECTIVE, Wait.REMOTE_END})
"""What all ranks have to come to."""

_OWN_WAITS = frozenset({Wait.PIPE_WRITE, Wait.PIPE_READ, Wait.SOCKET, Wait.POLL, Wait.FILE})
"""Waits in its own code, for somebody who is no part of the job."""

_WORKERS = frozenset({"dataloader worker", "pool worker"})


def part(knot: Knot) -> Part | None:
    """Of a chain that ends in one who stands by itself; `None` of any other."""
    if waiting_for_rank(knot):
        return Part.RANK
    lonely = knot.nobody is not None and knot.nobody.reason is Absent.THREAD_ENDED and knot.context() in SERVED
    if knot.ending not in (Ending.LEAF, Ending.OUTSIDE, Ending.OPEN) and not lonely:
        return None
    child = knot.kind() == "process" and not knot.is_goal
    if knot.context() in SERVED or knot.kind() in _WORKERS or child:
        return Part.WORKER
    return Part.PROGRAM


def waiting_for_rank(knot: Knot) -> list[ThreadKey]:
    """The other ranks that wait, in something that all have to come to, while the root is elsewhere; none where it is no such
    root.
    """
    alone = knot.ending is Ending.NOBODY and knot.standing().kind in _OWN_WAITS
    if knot.root is None or not (knot.ending in (Ending.LEAF, Ending.OUTSIDE) or alone):
        return []
    if knot.kind() != "rank" and not (knot.kind() == "process" and _serves_a_rank(knot)):
        return []
    if knot.standing().kind in TOGETHER:
        return []
    waiting = [key for key in knot.case.blocked if key[0] == key[1] and knot.standing(key).kind in TOGETHER]
    return [key for key in waiting if key[0] != knot.root[0] and knot.case.role(key[0]).kind == "rank"]


def _serves_a_rank(knot: Knot) -> bool:
    """A rank on the path, itself outside of the collective, waits for the root."""
    path = knot.closed.path
    asks = path[path.index(knot.root) - 1] if knot.root in path[1:] else None
    outside = asks is not None and knot.standing(asks).kind not in TOGETHER
    return outside and asks is not None and knot.case.role(asks[0]).kind == "rank"
