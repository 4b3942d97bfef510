"""What a machine says while nobody asks it for facts: its ranks by what they stand in, in some hundred bytes.

A hung job of a million processes has few things that its processes do: that argument, and classes of ranks in place of ranks,
are those of STAT (D. H. Ahn et al., "Scalable Temporal Order Analysis for Large Scale Debugging", SC 2009).  A class is who
does the same, at the same line, by the same calls, in a collective of the same group; its ranks are spans.

Digests are joined by `union` in any order, in any tree, as often as one likes: the result is the same.  Of one machine the
size is bounded; so what all machines say is bounded by their number, and by what they do in truth it is far less.
Moments are those of the machine's clock, until `in_time` makes them those of whoever joins.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.frames import own_frames
from mpmon.diagnosis.history import History, ThreadKey
from mpmon.diagnosis.knot import doing, stands_since
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.waits import Wait
from mpmon.model import Row, Stack
from mpmon.spans import Spans, spans
from mpmon.spans import union as union_of_spans

MOST_CLASSES = 24
"""Classes of one machine; those of most processes are kept, and the others told together."""

LONGEST = 160
"""Letters of what a class does."""

_MOVES = frozenset({Motion.MOVING, Motion.UNSEEN})

_PASSING = re.compile(r", \S+ (?:s|min|h|days) to go$|(?<=\bpid )\d+|(?<=\bthread )\d+")
"""What differs from process to process, or from look to look, of those that do the same."""


class Kind(Row, frozen=True, kw_only=True, order=True):
    """What all of a class have in common."""

    role: str
    """As in `mpmon.diagnosis.roles.Role.kind`: `rank`, `dataloader worker` ..."""
    does: str
    """`waiting for all_reduce in main() at train.py:49`; empty for those that get on."""
    operation: str = ""
    """The collective they are in, if they are in one."""
    group: Spans = ()
    """The ranks of the process group of that; empty where that is not known."""
    calls: str = ""
    """A digest of all calls of the main thread."""


class Class(Row, frozen=True, kw_only=True):
    """Processes that do the same."""

    kind: Kind
    ranks: Spans
    """The ranks they are, or work for."""
    nodes: Spans
    """The numbers of their machines."""
    first: tuple[int, int]
    """The lowest of the ranks, and its machine."""
    oldest: float | None = None
    """Since when the first of them stands, seconds since the epoch; `None` where all get on."""
    newest: float | None = None
    """The same of the last."""


Digest = tuple[Class, ...]
"""In the order of their kinds."""


def digest(history: History, node: int) -> Digest:
    """What the machine of that number says of its ranks, and of those who work for them and are not idle by right."""
    if history.snapshot is None:
        return ()
    case = Case(history, history.snapshot)
    found = union(*((each,) for pid in case.processes if (each := _class(case, pid, node))))
    if len(found) <= MOST_CLASSES:
        return found
    most = sorted(found, key=lambda row: (row.kind.role != "rank", -len(row.ranks), row.kind))
    kept, others = most[: MOST_CLASSES - 2], most[MOST_CLASSES - 2 :]
    return union(kept, *((msgspec.structs.replace(row, kind=_various(row)),) for row in others))


def _various(row: Class) -> Kind:
    """Of classes of which there are too many."""
    return Kind(role="rank" if row.kind.role == "rank" else "various", does="various")


def union(*digests: Iterable[Class]) -> Digest:
    """What several machines say together."""
    found: dict[Kind, list[Class]] = {}
    for each in digests:
        for row in each:
            found.setdefault(row.kind, []).append(row)
    return tuple(_joined(kind, found[kind]) for kind in sorted(found))


def in_time(classes: Digest, offset_s: float) -> Digest:
    """By another clock, behind which the machine's is that far ahead."""
    return tuple(
        msgspec.structs.replace(
            row, oldest=None if row.oldest is None else row.oldest - offset_s,
            newest=None if row.newest is None else row.newest - offset_s,
        ) for row in classes
    )  # fmt: skip


def _joined(kind: Kind, rows: list[Class]) -> Class:
    if len(rows) == 1:
        return rows[0]
    return Class(
        kind=kind, ranks=union_of_spans(*(row.ranks for row in rows)), nodes=union_of_spans(*(row.nodes for row in rows)),
        first=min(row.first for row in rows),
        oldest=min((row.oldest for row in rows if row.oldest is not None), default=None),
        newest=max((row.newest for row in rows if row.newest is not None), default=None),
    )  # fmt: skip


def _class(case: Case, pid: int, node: int) -> Class | None:
    role, key = case.role(pid), (pid, pid)
    if role.rank is None or not case.is_alive(pid) or (role.kind != "rank" and case.standing(key).idle):
        return None
    since = None if case.motion(key) in _MOVES else stands_since(case, key)
    return Class(
        kind=_kind(case, key, stands=since is not None), ranks=((role.rank, role.rank),), nodes=((node, node),),
        first=(role.rank, node), oldest=since, newest=since,
    )  # fmt: skip


def _kind(case: Case, key: ThreadKey, *, stands: bool) -> Kind:
    role, standing = case.role(key[0]).kind, case.standing(key)
    if not stands:
        return Kind(role=role, does="")
    meets = standing.kind is Wait.COLLECTIVE
    return Kind(
        role=role, does=_PASSING.sub("", doing(case, key))[:LONGEST], operation=standing.words if meets else "",
        group=spans(case.group_of(key)) if meets else (), calls=_calls(case.stacks.get(key)),
    )  # fmt: skip


def _calls(stack: Stack | None) -> str:
    if stack is None:
        return ""
    frames = ((frame.function, frame.file.rpartition("/")[2], frame.line) for frame in own_frames(stack))
    return hashlib.blake2b(repr(list(frames)).encode(), digest_size=6).hexdigest()
