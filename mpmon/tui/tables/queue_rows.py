"""Queues as the panel lists them. Pure.

Queues that are alike share a row, or those of a node with 8 ranks of 4 DataLoader workers each would fill the screen: alike
are those of one name and of one condition, so that a queue that stands out keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Verdict
from mpmon.diagnosis.humanize import speed
from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import kind_of
from mpmon.tui.describe.queues import has_shim, is_unread_by_suspect, name_of, waits_since
from mpmon.tui.line import Span, joined
from mpmon.tui.tables.ipc_row import IpcRow, first_shown, who

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpmon.diagnosis.ipc import QueueView
    from mpmon.tui.scene import Scene


def queue_rows(scene: Scene, *, folded: bool) -> Iterator[IpcRow]:
    """One row for each queue; folded, for those that are alike together."""
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
        amount=_depths(depths) + (f"/{bound}" if bound else ""),
        full=min(100, round(100 * max(known) / bound)) if bound and known else None,
        size=fmt.size(fmt.total(unread)),
        rate=_rates(scene, views),
        who=f"{_end(scene, views, 'producers')} → {_end(scene, views, 'consumers')}",
        notes=joined(_queue_notes(scene, views)),
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
    said = who(scene, pids) or "nobody"
    return f"({said})" if any(field in view.reasons for view in views) else said


def _rates(scene: Scene, views: Sequence[QueueView]) -> str:
    """The slowest and the fastest; known only where all who take items have the shim, or ledgers that can be read."""
    told = {row.object for row in scene.snapshot.queues if row.taken is not None}
    counted = {view.id for view in views if view.id in told or has_shim(scene, view.consumers)}
    found = [scene.rates.by_queue.get(view.id) if view.id in counted else None for view in views]
    known = sorted(value for value in found if value is not None)
    return "" if len(known) < len(found) else fmt.between(speed(known[0]), speed(known[-1]))


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
    waiting = {pid for _, pid in pairs}
    whose = "" if waiting == all_of_them else f" for {who(scene, sorted(waiting))}"
    moments = [waits_since(scene, view, pid, to_put=to_put) for view, pid in pairs]
    known = [moment for moment in moments if moment is not None]
    lasts = f" {fmt.short_age(scene.since(min(known)))}" if known else ""
    return word + lasts + whose


def _first(scene: Scene, views: Sequence[QueueView]) -> int | None:
    """Whom to look at first: who must move, who cannot put, who gets, who puts."""
    users = [pid for view in views for pid in (*view.consumers, *view.producers)]
    blocked = [pid for view in views for pid in view.blocked_put]
    return first_shown(scene, (*scene.suspects.intersection(users), *blocked, *users))


def _depths(depths: Sequence[int | None]) -> str:
    """`3`, `0–2`; unknown unless that of every queue is known."""
    known = sorted(depth for depth in depths if depth is not None)
    return fmt.UNKNOWN if len(known) < len(depths) else fmt.between(str(known[0]), str(known[-1]))
