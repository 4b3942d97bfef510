"""Transfers of CUDA memory that no process will ever receive, and how that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.ipc.exports import IN_FLIGHT
from mpmon.diagnosis.ipc.ground import Ground
from mpmon.diagnosis.ipc.views import ExportView, QueueView
from mpmon.diagnosis.thresholds import LOST_AFTER_S, RECEIVED_WITHIN_S


def never_received(
    ground: Ground, views: Iterable[ExportView], queues: Iterable[QueueView]
) -> Iterator[tuple[ExportView, str]]:
    """Each transfer that no process will ever receive, with the reason."""
    waiting = [view for view in views if view.state == IN_FLIGHT and (view.age_s or 0.0) >= RECEIVED_WITHIN_S]
    by_id = {queue.id: queue for queue in queues} if waiting else {}
    for view in waiting:
        why = _why(ground, view, by_id.get(view.queue or ""))
        if why:
            yield view, why


def _why(ground: Ground, view: ExportView, queue: QueueView | None) -> str:
    if view.queue is None:
        return "it went through no queue, and no process has it" if (view.age_s or 0.0) >= LOST_AFTER_S else ""
    if (passed := _passed_by(ground, view)) is not None:
        return f"what was sent after it through {view.queue} arrived {age(passed)} ago"
    if queue is not None and queue.depth == 0:
        return f"{view.queue} is empty"
    if (view.age_s or 0.0) >= LOST_AFTER_S and _is_left(ground, view):
        return f"no process but its producer has {view.queue}"
    return ""


def _passed_by(ground: Ground, view: ExportView) -> float | None:
    """Seconds since a later transfer of the same producer through the same queue arrived: a queue keeps their order."""
    arrived: list[float] = []
    for row in ground.snapshot.imports:
        sent = ground.sent.get((row.file, row.slot))
        same = sent is not None and (sent.pid, sent.object) == (view.producer, view.queue)
        if same and sent is not None and view.sent_at is not None and sent.sent_at > view.sent_at:
            arrived.append(ground.now - row.received_at)
    return max((seconds for seconds in arrived if seconds >= RECEIVED_WITHIN_S), default=None)


def _is_left(ground: Ground, view: ExportView) -> bool:
    """Its producer is known to have the queue, and no other living process reads it."""
    rows = ground.holders.get(view.queue or "", [])
    others = {row.pid for row in rows if row.reads and row.pid != view.producer and not ground.is_helper(row.pid)}
    return (
        any(row.pid == view.producer for row in rows)
        and not any(map(ground.is_alive, others))
        and view.queue not in ground.outside
    )
