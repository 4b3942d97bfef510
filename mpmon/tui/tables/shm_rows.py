"""Shared memory as the panel lists it: one row for /dev/shm. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.remarks import shm_near_full, shm_orphans
from mpmon.tui import format as fmt
from mpmon.tui.describe.limits import NEARLY_FULL
from mpmon.tui.line import Span, joined
from mpmon.tui.tables.ipc_row import IpcRow, first_shown, who

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.diagnosis.ipc import MemoryView
    from mpmon.tui.scene import Scene

LEAST_BYTES = 1 << 20
"""So much of the job in /dev/shm is worth a row; how nearly full it is, whoever fills it, is too."""

MAKERS = 2
"""Processes that are named as those who made what is in /dev/shm."""


def is_used(memory: MemoryView) -> bool:
    """By the job, by dead jobs, or nearly up by whomever."""
    own = max((max(row.bytes, row.created_bytes) for row in memory.by_process), default=0)
    nearly_full = memory.used_bytes >= NEARLY_FULL * memory.size_bytes
    return bool(memory.orphans) or nearly_full or own >= LEAST_BYTES


def shm_row(scene: Scene, memory: MemoryView) -> IpcRow:
    """How full it is, who fills it, and what is wrong with it."""
    makers = sorted((row for row in memory.by_process if row.created_bytes), key=lambda row: -row.created_bytes)
    named = [f"{who(scene, (row.pid,))} {fmt.size(row.created_bytes)}" for row in makers[:MAKERS]]
    more = [f"{len(makers) - MAKERS} more"] if len(makers) > MAKERS else []
    return IpcRow(
        what="/dev/shm",
        amount=f"{fmt.size(memory.used_bytes)}/{fmt.size(memory.size_bytes)}",
        full=round(100 * memory.used_bytes / memory.size_bytes) if memory.size_bytes else None,
        who=", ".join(named + more),
        notes=joined(_memory_notes(scene, memory)),
        pid=first_shown(scene, (row.pid for row in (*makers, *memory.by_process))),
    )


def _memory_notes(scene: Scene, memory: MemoryView) -> Iterator[Span]:
    topics = {row.topic for row in scene.diagnosis.remarks}
    if shm_near_full.TOPIC in topics:
        yield ("nearly full", "warn")
    if memory.orphans:
        held = fmt.size(sum(row.size_bytes for row in memory.orphans))
        files = fmt.plural(len(memory.orphans), "file")
        yield (f"{held} in {files} of dead processes", "warn" if shm_orphans.TOPIC in topics else "dim")
    if memory.in_transit:
        yield (f"{memory.in_transit} in transit", "dim")
    if memory.others:
        yield ("others see a different one", "dim")
