"""How much a job gets done, as far as its queues tell: a sign of life that needs no look at a stack."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.describe.crowd import in_short, kind_of
from mpmon.tui.line import Line, clip

if TYPE_CHECKING:
    from mpmon.diagnosis.ipc import QueueView
    from mpmon.tui.scene import Scene

LOADER = "loader result queue"
"""How the name of a queue begins from which a trainer takes its batches."""


def throughput(scene: Scene, width: int, most: int) -> list[Line]:
    """`rank 0–7 get 3.1–3.4 batches/s each, 0–4 are ready`: of loaders, else of each kind of process that takes items."""
    taken: defaultdict[int, list[QueueView]] = defaultdict(list)
    for view in scene.ipc.queues if scene.rates.by_taker else ():
        for pid in view.consumers:
            if pid in scene.rates.by_taker and "consumers" not in view.reasons:
                taken[pid].append(view)
    loads = {pid: views for pid, views in taken.items() if any(_is_loader(view) for view in views)}
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for pid in loads or taken:
        kinds[kind_of(scene.role(pid)).name].append(pid)
    unit = "batches" if loads else "items"
    return [clip(_flow(scene, sorted(pids), taken, unit), width) for pids in kinds.values()][:most]


def _is_loader(view: QueueView) -> bool:
    return (view.name or "").startswith(LOADER)


def _flow(scene: Scene, pids: list[int], taken: dict[int, list[QueueView]], unit: str) -> Line:
    """What these take, the slowest and the fastest of them, and what lies ready for them."""
    speeds = sorted(scene.rates.by_taker[pid] for pid in pids)
    depths = sorted(view.depth for pid in pids for view in taken[pid] if view.depth is not None)
    who = f"{in_short(scene, pids)} {'gets' if len(pids) == 1 else 'get'} "
    each = " each" if len(pids) > 1 else ""
    ready = f", {_range([str(depths[0]), str(depths[-1])])} ready" if depths else ""
    return (
        (who, ""),
        (f"{_range([fmt.speed(speeds[0]), fmt.speed(speeds[-1])])} {unit}/s", "good"),
        (each + ready, ""),
    )


def _range(ends: list[str]) -> str:
    """`3`, `3–4`."""
    return "–".join(dict.fromkeys(ends))
