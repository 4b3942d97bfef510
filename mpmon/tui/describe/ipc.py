"""All that processes share, for its own page: queues, CUDA memory sent to others, shared memory, and what the shim adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.describe import exports, queues
from mpmon.tui.describe.limits import NEARLY_FULL
from mpmon.tui.describe.naming import names_of
from mpmon.tui.line import BLANK, Line, clip, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.diagnosis.ipc import MemoryView, SharerView
    from mpmon.model import Process
    from mpmon.tui.scene import Scene

MOST_ORPHANS = 20

WHAT_IT_ADDS = (
    "where a queue was made, and which line puts into it and gets from it",
    "how many items were put, taken and lost, and since when a call has not come back",
    "whose CUDA memory is in transit, who holds it, how much, since when, and from which line it was sent",
)


def everything(scene: Scene, width: int) -> list[Line]:
    """Each part with its title."""
    parts = (
        ("queues", _queues(scene, width)),
        ("CUDA memory sent to other processes", exports.exports(scene, width)),
        ("shared memory", _memory(scene, width)),
        ("queue shim", _shim(scene, width)),
    )
    lines: list[Line] = []
    for title, found in parts:
        lines += [plain(title, "title"), *found, BLANK] if found else []
    return lines[:-1]


def of_process(scene: Scene, process: Process, width: int) -> list[Line]:
    """The part one process has in it; empty when it has none."""
    parts = (queues.part_of(scene, view, process.pid) for view in scene.ipc.queues)
    lines = [part for part in parts if part]
    lines += exports.of_process(scene, process.pid, width)
    row = next((row for row in scene.snapshot.limits if row.pid == process.pid), None)
    if row and row.storages:
        has = f"{fmt.plural(row.storages, 'tensor')} {fmt.size(row.storage_bytes)} mapped"
        lines.append(plain(f"  has {has}, and {fmt.plural(row.storage_descriptors, 'descriptor')} of tensors"))
    return [clip(line, width) for line in lines]


def _queues(scene: Scene, width: int) -> list[Line]:
    """Those in trouble first."""
    ordered = sorted(scene.ipc.queues, key=lambda view: queues.interest(scene, view))
    lines = [line for view in ordered for line in queues.in_full(scene, view, width)]
    return lines + queues.nothing_found(scene, width)


# Shared memory


def _memory(scene: Scene, width: int) -> list[Line]:
    memory = scene.ipc.memory
    if memory is None:
        return [plain("  /dev/shm could not be read", "dim")]
    full = memory.used_bytes >= NEARLY_FULL * memory.size_bytes
    said = f"/dev/shm: {fmt.size(memory.used_bytes)} of {fmt.size(memory.size_bytes)} used, by this job and others"
    lines = wrap(said, width, style="warn" if full else "", first="  ", then="    ")
    lines += [line for text in _uses(scene, memory) for line in wrap(text, width, first="  ", then="    ")]
    for file in memory.orphans[:MOST_ORPHANS]:
        made = f", made by {file.creator}, which is dead" if file.creator else ""
        lines += wrap(
            f"left behind: {fmt.size(file.size_bytes)} {file.path}{made}", width, style="warn", first="  ", then="    "
        )
    if len(memory.orphans) > MOST_ORPHANS:
        rest = memory.orphans[MOST_ORPHANS:]
        size = fmt.size(sum(file.size_bytes for file in rest))
        lines.append(plain(f"  and {fmt.plural(len(rest), 'file')} {size} more left behind", "warn"))
    return lines


def _uses(scene: Scene, memory: MemoryView) -> Iterator[str]:
    if memory.in_transit:
        yield f"{fmt.plural(memory.in_transit, 'tensor')} {fmt.size(memory.in_transit_bytes)} sent and not received yet"
    for row in memory.by_process:
        yield f"{scene.who(row.pid)}: {', '.join(_share(row))}"
    for other in memory.others:
        yield (
            f"{names_of(scene, other.pids)}: a different /dev/shm ({fmt.size(other.used_bytes)} of "
            f"{fmt.size(other.size_bytes)} used), so no shared memory passes between them and the others"
        )


def _share(row: SharerView) -> Iterator[str]:
    if row.storages:
        yield f"has {fmt.plural(row.storages, 'tensor')} {fmt.size(row.bytes)} mapped"
    if row.created:
        yield f"made {fmt.plural(row.created, 'tensor')} {fmt.size(row.created_bytes)} of those now in it"
    limits = (("descriptors", row.descriptors, row.descriptors_limit), ("mappings", row.maps, row.maps_limit))
    yield from (f"{fmt.number(used)} of {fmt.number(limit)} {what}" for what, used, limit in limits)


# The shim


def _shim(scene: Scene, width: int) -> list[Line]:
    alive = {row.pid for row in scene.snapshot.shims if row.alive}
    without = [row.pid for row in scene.snapshot.processes if row.pid not in alive and not row.ended]
    if not alive:
        lines = wrap(
            "not loaded; start the job with `mpmon run -- COMMAND`, and it records:", width, first="  ", then="  "
        )
        return lines + [line for what in WHAT_IT_ADDS for line in wrap(what, width, first="  · ", then="    ")]
    said = f"in {fmt.plural(len(alive), 'process', 'processes')}"
    said += f"; not in {names_of(scene, without)}" if without else ""
    lines = wrap(said, width, first="  ", then="    ")
    for row in scene.snapshot.shims:
        if row.dropped:
            text = f"{scene.who(row.pid)} had no room for {fmt.plural(row.dropped, 'record')}"
            lines += wrap(text, width, style="warn", first="  ", then="    ")
    return lines
