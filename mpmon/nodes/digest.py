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
from typing import Annotated

import msgspec

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.frames import own_frames
from mpmon.diagnosis.history import History, ThreadKey
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.starts import start_of
from mpmon.diagnosis.stuck_set import doing, stands_since
from mpmon.diagnosis.waits import Wait
from mpmon.model import Moment, Row, Stack
from mpmon.nodes.join import Part
from mpmon.spans import spans
from mpmon.spans import union as union_of_spans

MOST_CLASSES = 24
"""Classes of one machine; those of most processes are kept, and the others told together."""

LONGEST = 160
"""Letters of what a class does."""

MOST_RANK = 1 << 24
"""Ranks of a job; a process may call itself anything."""

MOST_SPANS = 512
"""Spans of ranks in one class of one machine."""

_MOVES = frozenset({Motion.MOVING, Motion.UNSEEN})

_PASSING = re.compile(r", \S+ (?:s|min|h|days) to go$|(?<=\bpid )\d+|(?<=\bthread )\d+")
"""What differs from process to process, or from look to look, of those that do the same."""


_Words = Annotated[str, msgspec.Meta(max_length=LONGEST)]
_Rank = Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANK)]
_Ranks = Annotated[tuple[tuple[_Rank, _Rank], ...], msgspec.Meta(max_length=MOST_SPANS)]


class Kind(Row, frozen=True, kw_only=True, order=True):
    """What all of a class have in common."""

    role: _Words
    """As in `mpmon.diagnosis.roles.Role.kind`: `rank`, `dataloader worker` ..."""
    does: _Words
    """`waiting for all_reduce in main() at train.py:49`; empty for those that get on."""
    operation: _Words = ""
    """The collective they are in, if they are in one."""
    group: _Ranks = ()
    """The ranks of the process group of that; empty where that is not known."""
    calls: _Words = ""
    """A digest of all calls of the main thread."""
    meets: _Words = ""
    """A digest of where the ranks of its start of the job meet, and how many, if torchrun started them."""


class Class(Row, frozen=True, kw_only=True):
    """Processes that do the same."""

    kind: Kind
    ranks: _Ranks
    """The ranks they are, or work for."""
    nodes: _Ranks
    """The numbers of their machines."""
    first: tuple[_Rank, _Rank]
    """The lowest of the ranks, and its machine."""
    oldest: Moment | None = None
    """Since when the first of them stands, seconds since the epoch; `None` where all get on."""
    newest: Moment | None = None
    """The same of the last."""
    starts: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How often one of their agents had started its ranks after a failure, at most."""


Digest = tuple[Class, ...]
"""In the order of their kinds."""


def digest(history: History, node: int) -> Digest:
    """What the machine of that number says of its ranks, and of those who work for them and are not idle by right."""
    if history.snapshot is None:
        return ()
    case = Case(history, history.snapshot)
    found = union(*((each,) for pid in case.processes if (each := _class(case, pid, node))))
    return tuple(msgspec.structs.replace(row, ranks=row.ranks[:MOST_SPANS]) for row in _few(found))


def _few(found: Digest) -> Digest:
    if len(found) <= MOST_CLASSES:
        return found
    most = sorted(found, key=lambda row: (row.kind.role != "rank", -len(row.ranks), row.kind))
    kept, others = most[: MOST_CLASSES - 2], most[MOST_CLASSES - 2 :]
    return union(kept, *((msgspec.structs.replace(row, kind=_various(row)),) for row in others))


def _various(row: Class) -> Kind:
    """Of classes of which there are too many."""
    return Kind(role="rank" if row.kind.role == "rank" else "various", does="various", meets=row.kind.meets)


def union(*digests: Iterable[Class]) -> Digest:
    """What several machines say together."""
    found: dict[Kind, list[Class]] = {}
    for each in digests:
        for row in each:
            found.setdefault(row.kind, []).append(row)
    return tuple(_joined(kind, found[kind]) for kind in sorted(found))


def of_last_start(classes: Digest) -> Digest:
    """Without ranks that were left over when torchrun started the job again: see `mpmon.diagnosis.starts`."""
    most: dict[str, int] = {}
    for row in classes:
        if row.kind.meets:
            most[row.kind.meets] = max(row.starts, most.get(row.kind.meets, 0))
    over = {
        place for place, starts in most.items()
        if any(other > starts for at, other in most.items() if at != place)
    }  # fmt: skip
    return tuple(row for row in classes if row.kind.meets not in over)


def at(classes: Digest, node: int) -> Digest:
    """Those of one machine as those of the machine of that number, whatever it takes itself for."""
    return tuple(
        msgspec.structs.replace(row, nodes=((node, node),), first=(row.ranks[0][0] if row.ranks else 0, node))
        for row in classes
    )


def in_time(classes: Digest, offset_s: float) -> Digest:
    """By another clock, behind which the machine's is that far ahead."""
    moment = Part(host="", offset_s=offset_s).moment
    return tuple(
        msgspec.structs.replace(
            row, oldest=None if row.oldest is None else moment(row.oldest),
            newest=None if row.newest is None else moment(row.newest),
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
        starts=max(row.starts for row in rows),
    )  # fmt: skip


def _class(case: Case, pid: int, node: int) -> Class | None:
    role, key = case.role(pid), (pid, pid)
    if role.rank is None or role.rank >= MOST_RANK or not case.is_alive(pid):
        return None
    if role.kind != "rank" and case.standing(key).idle:
        return None
    if case.is_of_earlier_start(pid if role.kind == "rank" or role.parent is None else role.parent):
        return None
    start = start_of(case.processes[pid])
    since = None if case.motion(key) in _MOVES else stands_since(case, key)
    return Class(
        kind=_kind(case, key, stands=since is not None), ranks=((role.rank, role.rank),), nodes=((node, node),),
        first=(role.rank, node), oldest=since, newest=since, starts=start.failures if start else 0,
    )  # fmt: skip


def _kind(case: Case, key: ThreadKey, *, stands: bool) -> Kind:
    role, standing = case.role(key[0]).kind[:LONGEST], case.standing(key)
    start = start_of(case.processes[key[0]])
    meeting = _short((start.run, *start.meets)) if start else ""
    if not stands:
        return Kind(role=role, does="", meets=meeting)
    meets = standing.kind is Wait.COLLECTIVE
    group = spans(case.group_of(key)) if meets else ()
    return Kind(
        role=role, does=_PASSING.sub("", doing(case, key))[:LONGEST], operation=standing.words[:LONGEST] if meets else "",
        group=group if len(group) <= MOST_SPANS else (), calls=_calls(case.stacks.get(key)), meets=meeting,
    )  # fmt: skip


def _calls(stack: Stack | None) -> str:
    if stack is None:
        return ""
    frames = ((frame.function, frame.file.rpartition("/")[2], frame.line) for frame in own_frames(stack))
    return _short(list(frames))


def _short(facts: object) -> str:
    return hashlib.blake2b(repr(facts).encode(), digest_size=6).hexdigest()
