"""What a machine reports when its facts are not requested: its ranks by what they wait in, in some hundred bytes.

The processes of a hung job, even a million, do only a few different things: that argument, and classes of ranks in
place of ranks, are those of STAT (D. H. Ahn et al., "Scalable Temporal Order Analysis for Large Scale Debugging", SC
2009). A class consists of processes that do the same, at the same line, by the same calls, in a collective of the same
group; its ranks are spans.

Digests are joined by `union` in any order and tree, any number of times: the result is the same. The size of one
machine's digest is bounded, so the total is bounded by the number of machines; in practice it is far less. Moments are
in the time of the machine's clock, until `in_time` converts them to the joining machine's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.ranks.starts import start_of
from mpmon.diagnosis.roles.role import RANK
from mpmon.diagnosis.stacks.frames import own_frames
from mpmon.diagnosis.state.history import History, ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import doing, stands_since
from mpmon.model import Moment, Row, Stack
from mpmon.nodes.join import Part
from mpmon.spans import spans
from mpmon.spans import union as union_of_spans

MOST_CLASSES = 24
"""Most classes of one machine; the largest are kept, and the others merged."""

LONGEST = 160
"""Longest description of what a class does, in characters."""

MOST_RANK = 1 << 24
"""Highest rank of a job; a process may claim any number."""

MOST_SPANS = 512
"""Most spans of ranks in one class of one machine."""

VARIOUS = "various"
"""What merged classes are and do."""

_MOVES = frozenset({Motion.PROGRESSING, Motion.UNKNOWN})

_PASSING = re.compile(r", \S+ (?:s|min|h|days) to go$|(?<=\bpid )\d+|(?<=\bthread )\d+")
"""Parts that vary by process or by sample among processes that do the same."""


_Words = Annotated[str, msgspec.Meta(max_length=LONGEST)]
_Rank = Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANK)]
_Ranks = Annotated[tuple[tuple[_Rank, _Rank], ...], msgspec.Meta(max_length=MOST_SPANS)]


class Kind(Row, frozen=True, kw_only=True, order=True):
    """What all processes of a class have in common."""

    role: _Words
    """As in `mpmon.diagnosis.roles.Role.kind`: `rank`, `dataloader worker` ..."""
    waits: _Words
    """The kind of their wait, as in `mpmon.diagnosis.stacks.waits.Wait`: `COLLECTIVE`; empty if they make progress."""
    operation: _Words = ""
    """The collective that the processes are in, if any."""
    group: _Ranks = ()
    """The ranks of its process group; empty if unknown."""
    calls: _Words = ""
    """A digest of all calls of the main thread."""
    meets: _Words = ""
    """A digest of the rendezvous and world size of the job start they belong to, if torchrun started it."""

    @property
    def is_rank(self) -> bool:
        """They are ranks, rather than processes that work for a rank."""
        return self.role == RANK


class Class(Row, frozen=True, kw_only=True):
    """Processes that do the same."""

    kind: Kind
    does: _Words
    """In words, of the first: `waiting for all_reduce in main() at train.py:49`; empty if they make progress."""
    ranks: _Ranks
    """The processes' own ranks, or the ranks they work for."""
    nodes: _Ranks
    """The numbers of their machines."""
    first: tuple[_Rank, _Rank]
    """The lowest of the ranks, and its machine."""
    oldest: Moment | None = None
    """Since when the first process has stood still, seconds since the epoch; `None` if all make progress."""
    newest: Moment | None = None
    """The same for the last process."""
    starts: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The most restarts after a failure by any of their agents."""


Digest = tuple[Class, ...]
"""In the order of their kinds."""


def digest(history: History, node: int) -> Digest:
    """What the machine of that number reports of its ranks, and of the processes that work for them and are not
    legitimately idle.
    """
    if history.snapshot is None:
        return ()
    job = JobState(history, history.snapshot)
    found = union(*((each,) for pid in job.processes if (each := _class(job, pid, node))))
    return tuple(msgspec.structs.replace(row, ranks=row.ranks[:MOST_SPANS]) for row in _few(found))


def _few(found: Digest) -> Digest:
    if len(found) <= MOST_CLASSES:
        return found
    most = sorted(found, key=lambda row: (not row.kind.is_rank, -len(row.ranks), row.kind))
    kept, others = most[: MOST_CLASSES - 2], most[MOST_CLASSES - 2 :]
    return union(kept, *((msgspec.structs.replace(row, kind=_various(row), does=VARIOUS),) for row in others))


def _various(row: Class) -> Kind:
    """The merged kind of excess classes."""
    return Kind(role=RANK if row.kind.is_rank else VARIOUS, waits=VARIOUS, meets=row.kind.meets)


def union(*digests: Iterable[Class]) -> Digest:
    """What several machines report together."""
    found: dict[Kind, list[Class]] = {}
    for each in digests:
        for row in each:
            found.setdefault(row.kind, []).append(row)
    return tuple(_joined(kind, found[kind]) for kind in sorted(found))


def of_last_start(classes: Digest) -> Digest:
    """The classes without ranks left over when torchrun restarted the job: see `mpmon.diagnosis.ranks.starts`."""
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
    """The classes of one machine under that number, whatever number it gives itself."""
    return tuple(
        msgspec.structs.replace(row, nodes=((node, node),), first=(row.ranks[0][0] if row.ranks else 0, node))
        for row in classes
    )


def in_time(classes: Digest, offset_s: float) -> Digest:
    """The classes in another clock's time; `offset_s` is how far the machine's clock is ahead of it."""
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
    first = min(rows, key=lambda row: (row.first, row.does))
    return Class(
        kind=kind, does=first.does,
        ranks=union_of_spans(*(row.ranks for row in rows)), nodes=union_of_spans(*(row.nodes for row in rows)),
        first=first.first,
        oldest=min((row.oldest for row in rows if row.oldest is not None), default=None),
        newest=max((row.newest for row in rows if row.newest is not None), default=None),
        starts=max(row.starts for row in rows),
    )  # fmt: skip


def _class(job: JobState, pid: int, node: int) -> Class | None:
    role, key = job.role(pid), (pid, pid)
    if role.rank is None or role.rank >= MOST_RANK or not job.is_alive(pid):
        return None
    if not role.is_rank and job.wait_state(key).idle:
        return None
    if job.is_of_earlier_start(pid if role.is_rank or role.parent is None else role.parent):
        return None
    start = start_of(job.processes[pid])
    since = None if job.motion(key) in _MOVES else stands_since(job, key)
    stands = since is not None
    return Class(
        kind=_kind(job, key, stands=stands), does=_does(job, key) if stands else "",
        ranks=((role.rank, role.rank),), nodes=((node, node),),
        first=(role.rank, node), oldest=since, newest=since, starts=start.failures if start else 0,
    )  # fmt: skip


def _kind(job: JobState, key: ThreadKey, *, stands: bool) -> Kind:
    role, wait_state = job.role(key[0]).kind[:LONGEST], job.wait_state(key)
    start = start_of(job.processes[key[0]])
    meeting = _short((start.run, *start.meets)) if start else ""
    if not stands:
        return Kind(role=role, waits="", meets=meeting)
    group = spans(job.group_of(key)) if wait_state.operation else ()
    return Kind(
        role=role, waits=wait_state.kind.name, operation=wait_state.operation[:LONGEST],
        group=group if len(group) <= MOST_SPANS else (), calls=_calls(job.stacks.get(key)), meets=meeting,
    )  # fmt: skip


def _does(job: JobState, key: ThreadKey) -> str:
    return _PASSING.sub("", doing(job, key))[:LONGEST]


def _calls(stack: Stack | None) -> str:
    if stack is None:
        return ""
    frames = ((frame.function, frame.file.rpartition("/")[2], frame.line) for frame in own_frames(stack))
    return _short(list(frames))


def _short(facts: object) -> str:
    return hashlib.blake2b(repr(facts).encode(), digest_size=6).hexdigest()
