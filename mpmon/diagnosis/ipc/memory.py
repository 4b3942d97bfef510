"""/dev/shm: how full it is, the creators and users of its files, and files that no process uses any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mpmon.diagnosis.ipc.ground import Ground
from mpmon.diagnosis.ipc.views import LeftoverView, MemoryView, SharerView, SystemView
from mpmon.model import Limits, SharedFile, SharedMemory

TELLING = 0.5
"""From this share of a limit on, a process is listed even if it shares nothing."""


def memory(ground: Ground) -> MemoryView | None:
    """As the job's root sees it; `None` if it could not be read."""
    systems = ground.snapshot.shared_memory
    if not systems:
        return None
    own = next((row for row in systems if ground.snapshot.root_pid in row.pids), systems[0])
    files = ground.snapshot.shared_files
    transit = [row for row in files if row.creator_alive and row.id not in ground.users]
    return MemoryView(
        device=own.device, size_bytes=own.size_bytes, used_bytes=own.used_bytes,
        by_process=tuple(sorted(_sharers(ground), key=lambda row: (-max(row.bytes, row.created_bytes), row.pid))),
        in_transit=len(transit), in_transit_bytes=sum(row.size_bytes for row in transit),
        orphans=tuple(map(_leftover, _orphans(ground))), others=tuple(_other(row) for row in systems if row is not own),
    )  # fmt: skip


def _orphans(ground: Ground) -> Iterator[SharedFile]:
    yield from (
        row for row in ground.snapshot.shared_files
        if row.creator_alive is False and not row.deleted and row.id not in ground.users
    )  # fmt: skip


def _leftover(row: SharedFile) -> LeftoverView:
    return LeftoverView(path=row.path, size_bytes=row.size_bytes, creator=row.creator)


def _other(row: SharedMemory) -> SystemView:
    return SystemView(device=row.device, size_bytes=row.size_bytes, used_bytes=row.used_bytes, pids=row.pids)


def _sharers(ground: Ground) -> Iterator[SharerView]:
    made: dict[int, list[SharedFile]] = defaultdict(list)
    for row in ground.snapshot.shared_files:
        pid = ground.inside.get(row.creator or 0)
        if pid is not None and row.creator_alive and row.kind == "storage":
            made[pid].append(row)
    known = {row.pid: row for row in ground.snapshot.limits}
    for pid in sorted(known.keys() | made.keys()):
        limits = known.get(pid, Limits(pid=pid))
        if limits.storages or pid in made or fullness(limits) >= TELLING:
            yield _sharer(limits, made.get(pid, []))


def _sharer(limits: Limits, created: list[SharedFile]) -> SharerView:
    return SharerView(
        pid=limits.pid, bytes=limits.storage_bytes, storages=limits.storages,
        created=len(created), created_bytes=sum(row.size_bytes for row in created),
        descriptors=limits.descriptors, descriptors_limit=limits.descriptors_limit,
        maps=limits.maps, maps_limit=limits.maps_limit,
    )  # fmt: skip


def fullness(limits: Limits) -> float:
    """The larger used share of its two limits."""
    pairs = ((limits.descriptors, limits.descriptors_limit), (limits.maps, limits.maps_limit))
    return max((used / limit for used, limit in pairs if used is not None and limit), default=0.0)
