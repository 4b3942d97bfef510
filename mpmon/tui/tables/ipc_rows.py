"""What processes share, as the panel lists it: queues, CUDA memory sent to others, /dev/shm. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Verdict
from mpmon.tui.tables.cuda_rows import cuda_rows
from mpmon.tui.tables.ipc_row import IpcRow
from mpmon.tui.tables.queue_rows import queue_rows
from mpmon.tui.tables.shm_rows import is_used, shm_row

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene


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
    rows = [*queue_rows(scene, folded=folded), *cuda_rows(scene)]
    memory = scene.ipc.memory
    if memory and (is_used(memory) or not rows):
        rows.append(shm_row(scene, memory))
    return sorted(rows, key=lambda row: row.order) or [IpcRow("nothing now")]
