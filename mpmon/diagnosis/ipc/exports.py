"""CUDA memory that was sent to other processes: what the refcounters say, joined with the shims' records of both sides.

A count is 1 from the transfer until the receiver releases it, then 0; that is all the file says
(torch/csrc/CudaIPCTypes.cpp). Only the shims of both sides know whether a transfer has arrived, its size and who has it.
Counts other than 0 and 1 mean that one transfer was rebuilt more than once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from mpmon.diagnosis.gpus import visible
from mpmon.diagnosis.ipc.ground import Ground
from mpmon.diagnosis.ipc.views import ExportView, PairView
from mpmon.model import ExportRecord, ImportRecord, SharedFile

IN_FLIGHT, HELD, HELD_BY_DEAD = "in-flight", "held", "held-by-dead"
NOT_COLLECTED, REBUILT_TWICE, UNKNOWN = "released-not-collected", "rebuilt-twice", "unknown"

WITHOUT_SHIM = "only the shim (mpmon run) knows what it is, and whether it is in transit or who holds it"
NO_FILE = "its refcounter file does not exist"


def exports(ground: Ground) -> tuple[ExportView, ...]:
    """One view per unreleased transfer; for transfers without a record, one view per refcounter."""
    told = [view for record in ground.snapshot.exports if (view := _told(ground, record))]
    return (*told, *_untold(ground))


def pairs(views: Iterable[ExportView]) -> tuple[PairView, ...]:
    """How much memory of each producer each process holds, largest first."""
    held: dict[tuple[int, int], list[ExportView]] = defaultdict(list)
    for view in views:
        for consumer in view.consumers if view.state in (HELD, HELD_BY_DEAD, REBUILT_TWICE) else ():
            held[view.producer, consumer].append(view)
    found = [_pair(producer, consumer, blocks) for (producer, consumer), blocks in held.items()]
    return tuple(sorted(found, key=lambda pair: (-pair.bytes, pair.producer, pair.consumer)))


def _pair(producer: int, consumer: int, blocks: list[ExportView]) -> PairView:
    ages = [view.age_s for view in blocks if view.age_s is not None]
    return PairView(
        producer=producer, consumer=consumer, blocks=len(blocks), bytes=sum(view.size_bytes or 0 for view in blocks),
        oldest_age_s=max(ages, default=None), queue=most_common(view.queue for view in blocks),
        site=most_common(view.site for view in blocks),
    )  # fmt: skip


def most_common(names: Iterable[str | None]) -> str | None:
    """The most frequent name; `None` if there is none."""
    counted = Counter(name for name in names if name)
    return counted.most_common(1)[0][0] if counted else None


# With records


def _told(ground: Ground, record: ExportRecord) -> ExportView | None:
    """The view of a recorded transfer; `None` if it was released and the memory is its producer's alone again."""
    file = ground.refcounters.get(record.file)
    count = _count(ground, file, record.slot)
    if count == 0 and record.dropped_at is None:
        return None
    takers = [row for row in ground.received.get((record.file, record.slot), ()) if not row.again]
    state, why = _state(ground, record, count, takers)
    uuid, unnamed = _device(ground, record)
    reasons = {"state": why, "gpu_uuid": unnamed, "refcount": "" if count is not None else NO_FILE}
    released = next((at for slot, at in reversed(file.released) if slot == record.slot), None) if file else None
    return ExportView(
        producer=record.pid, slot=record.slot, file=record.file, gpu_uuid=uuid, size_bytes=record.size_bytes,
        refcount=count, state=state, consumers=tuple(dict.fromkeys(row.pid for row in takers)), queue=record.object,
        site=record.site, age_s=round(max(0.0, ground.now - record.sent_at), 3), limbo=record.dropped_at is not None,
        synced=record.synced, sent_at=record.sent_at,
        released_s=round(ground.now - released, 3) if released is not None and count == 0 else None,
        reasons={name: reason for name, reason in reasons.items() if reason},
    )  # fmt: skip


def _count(ground: Ground, file: SharedFile | None, slot: int) -> int | None:
    if file is None or file.live_slots is None:
        return None
    known = ground.counts[file.id]
    cut = file.live_slots > len(known) and slot > (file.slots[-1][0] if file.slots else -1)
    return known.get(slot, None if cut else 0)


def _state(ground: Ground, record: ExportRecord, count: int | None, takers: list[ImportRecord]) -> tuple[str, str]:
    """The state and, if unknown, why."""
    if not ground.is_alive(record.pid):
        return UNKNOWN, "its producer has ended, and its memory with it"
    if count is None:
        return UNKNOWN, NO_FILE
    if count not in (0, 1):
        return REBUILT_TWICE, ""
    if count == 0:
        return NOT_COLLECTED, ""
    if takers:
        alive = any(_is_alive(ground, row.pid) for row in takers)
        return (HELD if alive else HELD_BY_DEAD), ""
    blind = _blind(ground, record)
    return (UNKNOWN, blind) if blind else (IN_FLIGHT, "")


def _is_alive(ground: Ground, pid: int) -> bool:
    shim = ground.shims.get(pid)
    return ground.is_alive(pid) and (shim is None or shim.alive)


def _blind(ground: Ground, record: ExportRecord) -> str:
    """Processes that could have the transfer without a record of it, in words; empty if there are none."""
    readers = {row.pid for row in ground.holders.get(record.object or "", ()) if row.reads}
    others = readers if record.object and readers else ground.processes.keys()
    for pid in sorted(others):
        if pid == record.pid or not ground.is_alive(pid) or ground.is_helper(pid):
            continue
        shim = ground.shims.get(pid)
        if shim is None:
            return f"pid {pid} may have it, but has no shim"
        if shim.dropped:
            return f"the shim of pid {pid} had no room to record everything it received"
    return ""


def _device(ground: Ground, record: ExportRecord) -> tuple[str | None, str]:
    """The UUID of its device, or why it is unknown."""
    process = ground.processes.get(record.pid)
    if process is None:
        return None, "its producer has ended"
    if not ground.snapshot.gpus:
        return None, "the driver names no devices"
    shown = visible(process, ground.snapshot.gpus, ground.snapshot.mig_instances)
    uuid = shown.uuid(record.device)
    if uuid is None:
        return None, shown.reason or f"cuda:{record.device} is not among what its environment shows"
    return uuid, ""


# Without


def _untold(ground: Ground) -> Iterator[ExportView]:
    """Counts that no record explains: one view for each refcounter that has some."""
    known: dict[str, set[int]] = defaultdict(set)
    for file, slot in ground.sent:
        known[file].add(slot)
    for name, file in sorted(ground.refcounters.items()):
        counts = [count for slot, count in file.slots if slot not in known[name]]
        producer = ground.inside.get(file.creator or 0)
        if counts and producer is not None and file.id in ground.users:
            yield _raw(ground, name, producer, counts, cut=(file.live_slots or 0) - len(file.slots))


def _raw(ground: Ground, name: str, producer: int, counts: list[int], *, cut: int) -> ExportView:
    """A tensor of the same size may look like a refcounter, so counts are trusted only if its creator has a CUDA context, or
    if a shim names that file.
    """
    sure = producer in ground.with_context or name in ground.named
    odd = [count for count in counts if count != 1]
    return ExportView(
        producer=producer, file=name, refcount=counts[0] if len(set(counts)) == 1 else None,
        state=REBUILT_TWICE if odd and sure else UNKNOWN, exports=len(counts) + max(0, cut),
        reasons={
            "state": WITHOUT_SHIM if sure else f"probably a refcounter; {WITHOUT_SHIM}",
            "size_bytes": WITHOUT_SHIM, "slot": f"{len(counts) + max(0, cut)} of them",
            "gpu_uuid": WITHOUT_SHIM, "age_s": WITHOUT_SHIM,
        },
    )  # fmt: skip
