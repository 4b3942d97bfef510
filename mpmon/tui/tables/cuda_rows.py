"""CUDA memory that processes sent to others, as the panel lists it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.ipc.exports import HELD, HELD_BY_DEAD, IN_FLIGHT, NOT_COLLECTED, REBUILT_TWICE, UNKNOWN
from mpmon.tui import format as fmt
from mpmon.tui.describe.exports import is_remarked
from mpmon.tui.line import Span, joined
from mpmon.tui.tables.ipc_row import IpcRow, first_shown, who

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpmon.diagnosis.ipc import ExportView
    from mpmon.tui.scene import Scene

SAID: dict[str, Span] = {
    HELD_BY_DEAD: ("its receiver died", "bad"),
    REBUILT_TWICE: ("rebuilt twice", "bad"),
    IN_FLIGHT: ("in transit", "dim"),
    NOT_COLLECTED: ("not collected", "dim"),
    UNKNOWN: ("location unknown", "dim"),
}
"""What is said of a state; memory that is held is as it should be."""

REMARKED: dict[str, Span] = {
    HELD: ("kept more and more", "warn"),
    IN_FLIGHT: ("never received", "warn"),
    NOT_COLLECTED: ("not collected", "warn"),
}
"""What is said instead where a remark says that this is no passing state."""


def cuda_rows(scene: Scene) -> Iterator[IpcRow]:
    """One row for each sender, receiver and state."""
    alike: dict[tuple[int, tuple[int, ...], str, str | None], list[ExportView]] = {}
    for view in scene.ipc.exports:
        alike.setdefault((view.producer, view.consumers, view.state, view.gpu_uuid), []).append(view)
    for views in alike.values():
        first = views[0]
        receivers = who(scene, first.consumers) if first.consumers else fmt.UNKNOWN
        yield IpcRow(
            what=_device(scene, first.gpu_uuid),
            amount=str(sum(view.exports for view in views)),
            size=fmt.size(fmt.total(view.size_bytes for view in views)),
            who=f"{who(scene, (first.producer,))} → {receivers}",
            notes=joined(_export_notes(scene, views)),
            pid=first_shown(scene, (*first.consumers, first.producer)),
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
