"""What processes share, one row each, as the panel lists it: queues, CUDA memory sent to others, /dev/shm. Pure.

Queues that are alike share a row, or those of a node with 8 ranks of 4 DataLoader workers each would fill the screen: alike
are those of one name and of one condition, so that a queue that stands out keeps its own.
Texts are rounded to what is shown, so that a row is equal to the one before unless its line would differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.findings import Verdict
from mpmon.diagnosis.ipc.exports import HELD, HELD_BY_DEAD, IN_FLIGHT, NOT_COLLECTED, REBUILT_TWICE, UNKNOWN
from mpmon.diagnosis.remarks import shm_near_full, shm_orphans
from mpmon.tui import format as fmt
from mpmon.tui.describe.crowd import in_short, kind_of
from mpmon.tui.describe.exports import is_remarked
from mpmon.tui.describe.limits import NEARLY_FULL
from mpmon.tui.describe.queues import has_shim, is_unread_by_suspect, name_of, waits_since
from mpmon.tui.line import Line, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mpmon.diagnosis.ipc import ExportView, MemoryView, QueueView
    from mpmon.tui.scene import Scene

LEAST_BYTES = 1 << 20
"""So much of the job in /dev/shm is worth a row; how nearly full it is, whoever fills it, is too."""

MAKERS = 2
"""Processes that are named as those who made what is in /dev/shm."""

NAMED = re.compile(r"\bprocess (?=[^\W\d])")
"""Before the name of a process, which says enough."""

TROUBLE = ("bad", "warn")
"""Styles of what a person should look at."""


class IpcRow(NamedTuple):
    """One thing that is shared, or several that are alike."""

    what: str
    amount: str = ""
    """Items in a queue and its bound, blocks of memory, memory used."""
    full: int | None = None
    """Percent of the bound."""
    size: str = ""
    """Bytes: unread in the pipe of a queue, or of the blocks."""
    rate: str = ""
    """Items taken from a queue each second."""
    who: str = ""
    """From whom to whom."""
    notes: Line = ()
    """What matters about it."""
    suspect: bool = False
    """Somebody who must move first should read it."""
    pid: int | None = None
    """Whom selecting the row selects."""

    @property
    def pressing(self) -> bool:
        """A person should look at it."""
        return any(style in TROUBLE for _, style in self.notes)

    @property
    def order(self) -> tuple[bool, bool, bool]:
        """What it sorts by: trouble, what waits, what a suspect should read, the rest."""
        return (not any(style == "bad" for _, style in self.notes), not self.pressing, not self.suspect)


def is_shared(scene: Scene) -> bool:
    """Whether there is anything to show, without the joins."""
    snapshot = scene.snapshot
    return bool(snapshot.queues or snapshot.queue_records or snapshot.exports or snapshot.shared_files)


def may_press(scene: Scene) -> bool:
    """Whether anything could be worth a row where there is little room, without the joins."""
    if scene.diagnosis.verdict is Verdict.HUNG:
        return True
    return any(row.topic.startswith(("ipc-", "items-", "shm-")) for row in scene.diagnosis.remarks)


def ipc_rows(scene: Scene, *, folded: bool) -> list[IpcRow]:
    """Every queue, everybody's CUDA memory, and /dev/shm; what matters first."""
    rows = [*_queues(scene, folded=folded), *_memory_sent(scene)]
    memory = scene.ipc.memory
    if memory and (_is_used(memory) or not rows):
        rows.append(_shared_memory(scene, memory))
    return sorted(rows, key=lambda row: row.order) or [IpcRow("nothing now")]


# Queues


def _queues(scene: Scene, *, folded: bool) -> Iterator[IpcRow]:
    alike: dict[object, list[QueueView]] = {}
    for view in scene.ipc.queues:
        alike.setdefault(_likeness(scene, view) if folded else view.id, []).append(view)
    return (_row_of_queues(scene, views) for views in alike.values())


def _likeness(scene: Scene, view: QueueView) -> object:
    """Equal for queues that may share a row."""
    ends = (view.producers, view.consumers) if not view.name else ()
    kinds = tuple(frozenset(kind_of(scene.role(pid)).name for pid in pids) for pids in ends)
    name = kind_of(name_of(view)).name if view.name else view.kind
    return (name, kinds, view.capacity is None, is_unread_by_suspect(scene, view), *_condition(scene, view))


def _condition(scene: Scene, view: QueueView) -> tuple[bool, ...]:
    """What stands out of it."""
    locks = tuple(bool(lock and lock.orphaned) for lock in (view.read_lock, view.write_lock))
    return (*locks, bool(view.lost), *(bool(pids) for pids in _waiters(scene, view)))


def _waiters(scene: Scene, view: QueueView) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Who waits to put and to get, which in a job that gets on changes from one look to the next."""
    return (view.blocked_put, view.blocked_get) if scene.diagnosis.verdict is Verdict.HUNG else ((), ())


def _row_of_queues(scene: Scene, views: Sequence[QueueView]) -> IpcRow:
    bounds = {view.capacity for view in views}
    bound = bounds.pop() if len(bounds) == 1 else None
    depths = [view.depth for view in views]
    known = [depth for depth in depths if depth is not None]
    unread = [view.bytes_unread for view in views]
    return IpcRow(
        what=_named(views),
        amount=_range(depths) + (f"/{bound}" if bound else ""),
        full=min(100, round(100 * max(known) / bound)) if bound and known else None,
        size=fmt.size(_sum(unread)),
        rate=_rates(scene, views),
        who=f"{_end(scene, views, 'producers')} → {_end(scene, views, 'consumers')}",
        notes=_joined(_queue_notes(scene, views)),
        suspect=is_unread_by_suspect(scene, views[0]),
        pid=_first(scene, views),
    )


def _named(views: Sequence[QueueView]) -> str:
    """`loader index queue 2`, `32 × loader index queue 0–3`, `5 × Queue`."""
    if len(views) == 1:
        return name_of(views[0])
    kinds = [kind_of(name_of(view)) for view in views if view.name]
    numbers = sorted({kind.number for kind in kinds if kind.number is not None})
    said = f"{kinds[0].name} {fmt.ranges(numbers)}".rstrip() if kinds else views[0].kind or "queue"
    return said if len(numbers) == len(views) else f"{len(views)} × {said}"


def _end(scene: Scene, views: Sequence[QueueView], field: str) -> str:
    """Who is at one end; in brackets who could be, where nobody was seen to use it."""
    pids = dict.fromkeys(pid for view in views for pid in (view.producers if field == "producers" else view.consumers))
    said = _who(scene, pids) or "nobody"
    return f"({said})" if any(field in view.reasons for view in views) else said


def _rates(scene: Scene, views: Sequence[QueueView]) -> str:
    """The slowest and the fastest; known only where all who take items have the shim, or ledgers that can be read."""
    told = {row.object for row in scene.snapshot.queues if row.taken is not None}
    known_of = [view.id in told or has_shim(scene, view.consumers) for view in views]
    found = [scene.rates.by_queue.get(view.id) if known else None for view, known in zip(views, known_of, strict=True)]
    known = [fmt.speed(value) for value in sorted(value for value in found if value is not None)]
    return "" if len(known) < len(found) else "–".join(dict.fromkeys((known[0], known[-1])))


def _queue_notes(scene: Scene, views: Sequence[QueueView]) -> Iterator[Span]:
    for name, locks in (("get", [v.read_lock for v in views]), ("put", [v.write_lock for v in views])):
        if any(lock and lock.orphaned for lock in locks):
            yield (f"{name} lock: its holder died", "bad")
    if said := _wait(scene, views, "put blocked", to_put=True):
        yield (said, "warn")
    if lost := sum(view.lost or 0 for view in views):
        yield (f"{lost} lost", "warn")
    if said := _wait(scene, views, "get waits", to_put=False):
        yield (said, "dim")


def _wait(scene: Scene, views: Sequence[QueueView], word: str, *, to_put: bool) -> str:
    """`put blocked 4 min`, and of whom, where that is not everybody who puts."""
    pairs = [(view, pid) for view in views for pid in _waiters(scene, view)[0 if to_put else 1]]
    if not pairs:
        return ""
    all_of_them = {pid for view in views for pid in (view.producers if to_put else view.consumers)}
    who = {pid for _, pid in pairs}
    whose = "" if who == all_of_them else f" for {_who(scene, sorted(who))}"
    moments = [waits_since(scene, view, pid, to_put=to_put) for view, pid in pairs]
    known = [moment for moment in moments if moment is not None]
    lasts = f" {fmt.short_age(scene.since(min(known)))}" if known else ""
    return word + lasts + whose


def _first(scene: Scene, views: Sequence[QueueView]) -> int | None:
    """Whom to look at first: who must move, who cannot put, who gets, who puts."""
    users = [pid for view in views for pid in (*view.consumers, *view.producers)]
    blocked = [pid for view in views for pid in view.blocked_put]
    return next((pid for pid in (*scene.suspects.intersection(users), *blocked, *users) if pid in scene.views), None)


def _who(scene: Scene, pids: Iterable[int]) -> str:
    """`rank 0–3`, `Producer-1`."""
    return NAMED.sub("", in_short(scene, pids))


# CUDA memory

SAID: dict[str, Span] = {
    HELD_BY_DEAD: ("its receiver died", "bad"),
    REBUILT_TWICE: ("rebuilt twice", "bad"),
    IN_FLIGHT: ("under way", "dim"),
    NOT_COLLECTED: ("not collected", "dim"),
    UNKNOWN: ("not known where", "dim"),
}
"""What is said of a state; memory that is held is as it should be."""

REMARKED: dict[str, Span] = {
    HELD: ("kept more and more", "warn"),
    IN_FLIGHT: ("never received", "warn"),
    NOT_COLLECTED: ("not collected", "warn"),
}
"""What is said instead where a remark says that this is no passing state."""


def _memory_sent(scene: Scene) -> Iterator[IpcRow]:
    """One row for each sender, receiver and state."""
    alike: dict[tuple[int, tuple[int, ...], str, str | None], list[ExportView]] = {}
    for view in scene.ipc.exports:
        alike.setdefault((view.producer, view.consumers, view.state, view.gpu_uuid), []).append(view)
    for views in alike.values():
        first = views[0]
        receivers = _who(scene, first.consumers) if first.consumers else fmt.UNKNOWN
        yield IpcRow(
            what=_device(scene, first.gpu_uuid),
            amount=str(sum(view.exports for view in views)),
            size=fmt.size(_sum([view.size_bytes for view in views])),
            who=f"{_who(scene, (first.producer,))} → {receivers}",
            notes=_joined(_export_notes(scene, views)),
            pid=next((pid for pid in (*first.consumers, first.producer) if pid in scene.views), None),
        )


def _device(scene: Scene, uuid: str | None) -> str:
    index = scene.gpu_index.get(uuid or "")
    return "CUDA memory" if index is None else f"memory of GPU {index}"


def _export_notes(scene: Scene, views: Sequence[ExportView]) -> Iterator[Span]:
    first = views[0]
    said = REMARKED[first.state] if is_remarked(scene, first) else SAID.get(first.state)
    if said:
        yield said
    ages = [view.age_s for view in views if view.age_s is not None]
    if ages:
        yield (f"oldest {fmt.short_age(max(ages))}", "dim")
    for count, what in (
        (sum(v.limbo and v.state != NOT_COLLECTED for v in views), "in limbo"),
        (sum(v.synced for v in views), "with a full sync"),
    ):
        if count:
            yield (f"{count} {what}", "dim")


# /dev/shm


def _is_used(memory: MemoryView) -> bool:
    """By the job, by dead jobs, or nearly up by whomever."""
    own = max((max(row.bytes, row.created_bytes) for row in memory.by_process), default=0)
    nearly_full = memory.used_bytes >= NEARLY_FULL * memory.size_bytes
    return bool(memory.orphans) or nearly_full or own >= LEAST_BYTES


def _shared_memory(scene: Scene, memory: MemoryView) -> IpcRow:
    makers = sorted((row for row in memory.by_process if row.created_bytes), key=lambda row: -row.created_bytes)
    named = [f"{_who(scene, (row.pid,))} {fmt.size(row.created_bytes)}" for row in makers[:MAKERS]]
    more = [f"{len(makers) - MAKERS} more"] if len(makers) > MAKERS else []
    return IpcRow(
        what="/dev/shm",
        amount=f"{fmt.size(memory.used_bytes)}/{fmt.size(memory.size_bytes)}",
        full=round(100 * memory.used_bytes / memory.size_bytes) if memory.size_bytes else None,
        who=", ".join(named + more),
        notes=_joined(_memory_notes(scene, memory)),
        pid=next((row.pid for row in (*makers, *memory.by_process) if row.pid in scene.views), None),
    )


def _memory_notes(scene: Scene, memory: MemoryView) -> Iterator[Span]:
    topics = {row.topic for row in scene.diagnosis.remarks}
    if shm_near_full.TOPIC in topics:
        yield ("nearly full", "warn")
    if memory.orphans:
        held = fmt.size(sum(row.size_bytes for row in memory.orphans))
        files = fmt.plural(len(memory.orphans), "file")
        yield (f"{held} in {files} of the dead", "warn" if shm_orphans.TOPIC in topics else "dim")
    if memory.in_transit:
        yield (f"{memory.in_transit} under way", "dim")
    if memory.others:
        yield ("others see another one", "dim")


# Numbers


def _range(values: Sequence[int | None]) -> str:
    """`3`, `0–2`; unknown unless every part is known."""
    known = sorted(value for value in values if value is not None)
    return fmt.UNKNOWN if len(known) < len(values) else "–".join(dict.fromkeys((str(known[0]), str(known[-1]))))


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _joined(notes: Iterable[Span]) -> Line:
    """The notes with points between them."""
    spans = [span for note in notes for span in ((" · ", "dim"), note)]
    return tuple(spans[1:])
