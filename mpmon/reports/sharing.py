"""What processes share, for people: queues, CUDA memory sent to others, shared memory. A few lines, the most important first."""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis import ipc
from mpmon.diagnosis.findings import Observation
from mpmon.diagnosis.humanize import age, several, size
from mpmon.diagnosis.ipc import ExportView, Ipc, LockView, MemoryView, PairView, QueueView, SharerView
from mpmon.diagnosis.ipc.names import in_words

MOST_LINES = 6
"""Lines of one kind."""


def lines(observation: Observation) -> Iterator[str]:
    """No lines if nothing is shared."""
    found = ipc.of(observation)
    yield from _block("queues", [_queue(found, view) for view in sorted(found.queues, key=_interest)])
    told = [_pair(found, pair) for pair in found.pairs]
    yield from _block("CUDA memory sent to other processes", [*told, *_others(found)])
    if found.memory and _is_used(found.memory):
        yield from _block(_head(found.memory), _sharers(found, found.memory))


def _block(title: str, found: list[str]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield f"  {title}:"
    yield from (f"    - {line}" for line in found[:MOST_LINES])
    if len(found) > MOST_LINES:
        yield f"    … {len(found) - MOST_LINES} more"


# Queues


def _interest(view: QueueView) -> tuple[int, int, str]:
    """Queues with a blocked put, an orphaned lock or a lost item first, then the fullest."""
    locks = [lock for lock in (view.read_lock, view.write_lock) if lock and lock.orphaned]
    return (0 if view.blocked_put or locks or view.lost else 1, -(view.depth or 0), view.id)


def _queue(found: Ipc, view: QueueView) -> str:
    facts = [_content(view), _flow(found, view)]
    facts += [f"{_names(found, view.blocked_put)} blocked in put" if view.blocked_put else ""]
    facts += [_lock("reader", view.read_lock), _lock("writer", view.write_lock)]
    facts += [f"{view.lost} item{'s' if view.lost > 1 else ''} lost" if view.lost else ""]
    return f"{in_words(view)}: {'; '.join(fact for fact in facts if fact)}"


def _content(view: QueueView) -> str:
    if view.depth is None:
        depth = "depth unknown" + (f" ({view.reasons['depth']})" if "depth" in view.reasons else "")
    else:
        items = f"item{'' if (view.capacity or view.depth) == 1 else 's'}"
        depth = f"{view.depth} of {view.capacity} {items}" if view.capacity else f"{view.depth} {items}"
    return depth + (f", {view.bytes_unread} bytes unread" if view.bytes_unread is not None else "")


def _flow(found: Ipc, view: QueueView) -> str:
    if "producers" in view.reasons or "consumers" in view.reasons:
        return ""
    return f"{_names(found, view.producers)} → {_names(found, view.consumers)}"


def _lock(side: str, lock: LockView | None) -> str:
    return f"its {side} lock is held by no living process" if lock and lock.orphaned else ""


def _names(found: Ipc, pids: tuple[int, ...]) -> str:
    return several([found.ground.who(pid) for pid in pids], most=3)


# CUDA memory


def _pair(found: Ipc, pair: PairView) -> str:
    oldest = f", oldest {age(pair.oldest_age_s)}" if pair.oldest_age_s is not None else ""
    way = f", queue {pair.queue}" if pair.queue else ""
    site = f", sent from {pair.site}" if pair.site else ""
    holds = "holds" if found.ground.is_alive(pair.consumer) else "died and still holds"
    return (
        f"{found.ground.who(pair.consumer)} {holds} {pair.blocks} block{'s' if pair.blocks > 1 else ''} ({size(pair.bytes)}) of "
        f"{found.ground.who(pair.producer)}{oldest}{way}{site}"
    )


_STATES = {
    "in-flight": "in transit, not received yet",
    "released-not-collected": "released, not collected",
    "unknown": "of which mpmon sees only the count",
}


def _others(found: Ipc) -> Iterator[str]:
    """Transfers without a known holder, by producer and state."""
    groups: dict[tuple[int, str], list[ExportView]] = {}
    for view in found.exports:
        if view.state in _STATES:
            groups.setdefault((view.producer, view.state), []).append(view)
    for (producer, state), views in groups.items():
        count = sum(view.exports for view in views)
        known = [view.size_bytes for view in views if view.size_bytes is not None]
        held = f" ({size(sum(known))})" if len(known) == len(views) else ""
        why = next((view.reasons["state"] for view in views if "state" in view.reasons), "")
        blocks = f"{count} block{'s' if count > 1 else ''}{held}"
        yield f"{blocks} of {found.ground.who(producer)} {_STATES[state]}{f': {why}' if why else ''}"


# Shared memory


def _is_used(memory: MemoryView) -> bool:
    return bool(memory.orphans or memory.in_transit or any(row.storages or row.created for row in memory.by_process))


def _head(memory: MemoryView) -> str:
    apart = "; other processes see a different one" if memory.others else ""
    return f"shared memory, /dev/shm {size(memory.used_bytes)} of {size(memory.size_bytes)} used{apart}"


def _sharers(found: Ipc, memory: MemoryView) -> list[str]:
    told = [f"{found.ground.who(row.pid)} {_share(row)}" for row in memory.by_process if row.storages or row.created]
    if memory.in_transit:
        told.insert(0, f"{_tensors(memory.in_transit, memory.in_transit_bytes)} sent and not received yet")
    if memory.orphans:
        count, held = len(memory.orphans), size(sum(row.size_bytes for row in memory.orphans))
        told.insert(0, f"{count} file{'s' if count > 1 else ''} ({held}) left by dead processes")
    return told


def _share(row: SharerView) -> str:
    has = f"has {_tensors(row.storages, row.bytes)} mapped" if row.storages else ""
    made = f"created {_tensors(row.created, row.created_bytes)} of what is now there" if row.created else ""
    return ", ".join(part for part in (has, made) if part)


def _tensors(count: int, bytes_: int) -> str:
    return f"{count} tensor{'s' if count != 1 else ''} ({size(bytes_)})"
