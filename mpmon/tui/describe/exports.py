"""CUDA memory that processes sent to others and that is not given back: who holds how much of whom, and each block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.ipc.exports import HELD, HELD_BY_DEAD, IN_FLIGHT, NOT_COLLECTED, REBUILT_TWICE, UNKNOWN
from mpmon.diagnosis.remarks import ipc_leak_by_consumer, ipc_never_received, ipc_not_collected
from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import names_of
from mpmon.tui.describe.reasons import not_known
from mpmon.tui.line import Line, Span, wrap, wrap_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpmon.diagnosis.ipc import ExportView
    from mpmon.tui.scene import Scene

MOST = 100
"""Blocks of one kind that are listed, the oldest first."""

STATES: dict[str, Span] = {
    REBUILT_TWICE: ("rebuilt more than once: it may be freed while in use, or never", "bad"),
    HELD_BY_DEAD: ("its receiver died: not freed before its producer ends", "bad"),
    IN_FLIGHT: ("in transit, not received yet", ""),
    NOT_COLLECTED: ("released, not collected", ""),
    HELD: ("held", ""),
    UNKNOWN: ("location unknown", "dim"),
}
"""The worst first."""

REMARKS = {
    HELD: ipc_leak_by_consumer.TOPIC,
    IN_FLIGHT: ipc_never_received.TOPIC,
    NOT_COLLECTED: ipc_not_collected.TOPIC,
}
"""Which remark says that a state is no passing one."""

FIELDS = {"state": "where it is", "gpu_uuid": "its GPU", "refcount": "its count", "size_bytes": "its size"}
"""Words for what is not known."""


def is_remarked(scene: Scene, view: ExportView) -> bool:
    """Whether a remark is about this sender, this state and, of what is held, this receiver."""
    pids = {view.producer, *(view.consumers if view.state == HELD else ())}
    topic = REMARKS.get(view.state)
    return any(row.topic == topic and pids.issubset(row.pids) for row in scene.diagnosis.remarks)


def exports(scene: Scene, width: int) -> list[Line]:
    """Blocks that are alike together: how many, whose, where, from which line, and each of them."""
    return [line for views in _alike(scene.ipc.exports) for line in _in_full(scene, views, width)]


def of_process(scene: Scene, pid: int, width: int) -> list[Line]:
    """What one process sent and what it holds."""
    own = [view for view in scene.ipc.exports if pid in (view.producer, *view.consumers)]
    return [line for views in _alike(own) for line in _total(scene, views, width)]


def _alike(views: Sequence[ExportView]) -> list[list[ExportView]]:
    """The worst state first, then the most memory."""
    found: dict[object, list[ExportView]] = {}
    for view in views:
        key = (view.producer, view.consumers, view.state, view.gpu_uuid, view.site, view.queue, view.file, view.synced)
        found.setdefault(key, []).append(view)
    rank = {state: number for number, state in enumerate(STATES)}
    return sorted(
        found.values(), key=lambda same: (rank.get(same[0].state, len(rank)), -sum(v.size_bytes or 0 for v in same))
    )


def _in_full(scene: Scene, views: Sequence[ExportView], width: int) -> list[Line]:
    lines = _total(scene, views, width)
    lines += wrap(" · ".join(_about(scene, views[0])), width, first="    ", then="      ")
    numbered = sorted((view for view in views if view.slot is not None), key=lambda view: -(view.age_s or 0.0))
    said = [_block(view) for view in numbered[:MOST]]
    widest = max(map(len, said), default=0)
    blocks: list[Span] = [(f"{text:{widest}}   ", "dim") for text in said]
    if len(numbered) > MOST:
        blocks.append((f"and {len(numbered) - MOST} more", "dim"))
    lines += wrap_spans([("    ", ""), *blocks], width, then="    ") if blocks else []
    unknown = not_known(views[0].reasons.items(), FIELDS)
    return lines + [line for text in unknown for line in wrap(text, width, style="dim", first="    ", then="      ")]


def _total(scene: Scene, views: Sequence[ExportView], width: int) -> list[Line]:
    """`40 blocks 2.5G of rank 0 (4301) · held by rank 1 (4302) · oldest 3 min 30 s · 1 in limbo`."""
    first = views[0]
    said, style = STATES.get(first.state, (first.state, ""))
    whom = f" by {names_of(scene, first.consumers)}" if first.state == HELD and first.consumers else ""
    sizes = [view.size_bytes for view in views]
    known = [size for size in sizes if size is not None]
    size = f" {fmt.size(sum(known))}" if len(known) == len(sizes) else ""
    facts = [
        f"{fmt.plural(sum(view.exports for view in views), 'block')}{size} of {scene.who(first.producer)}",
        said + whom,
    ]
    ages = [view.age_s for view in views if view.age_s is not None]
    facts += [f"oldest {fmt.age(max(ages))}"] if ages else []
    limbo = sum(view.limbo for view in views if view.state != NOT_COLLECTED)
    facts += [f"{limbo} in limbo, no longer used by its producer"] if limbo else []
    look = "warn" if is_remarked(scene, first) else style
    return wrap(" · ".join(facts), width, style=look, first="  ", then="    ")


def _about(scene: Scene, view: ExportView) -> Iterator[str]:
    """What blocks that are alike have in common."""
    if view.gpu_uuid:
        index = scene.gpu_index.get(view.gpu_uuid)
        yield view.gpu_uuid if index is None else f"GPU {index}"
    if view.site:
        yield f"sent at {view.site}"
    if view.queue:
        name = next((queue.name for queue in scene.ipc.queues if queue.id == view.queue), None)
        yield f"through {view.queue}" + (f", {name}" if name else "")
    if view.synced:
        yield "sent with a full synchronization, because no events were left"
    yield f"counted in {view.file}"


def _block(view: ExportView) -> str:
    """`slot 17: 64M, 3 min 30 s, limbo`."""
    facts = [fmt.size(view.size_bytes)]
    facts += [fmt.age(view.age_s)] if view.age_s is not None else []
    facts += [f"count {view.refcount}"] if view.refcount not in (None, 0, 1) else []
    facts += [f"released {fmt.age(view.released_s)} ago"] if view.released_s is not None else []
    facts += ["limbo"] if view.limbo and view.state != NOT_COLLECTED else []
    return f"slot {view.slot}: {', '.join(facts)}"
