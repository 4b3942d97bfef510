"""How much a job gets done, as far as its queues and its Flight Recorders tell: signs of life that need no look at a stack."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.humanize import speed
from mpmon.diagnosis.throughput.pace import in_words
from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import kind_of, short_names
from mpmon.tui.line import Line, clip, plain

if TYPE_CHECKING:
    from mpmon.diagnosis.ipc import QueueView
    from mpmon.tui.scene import Scene

LOADER = "loader result queue"
"""How the name of a queue begins from which a trainer takes its batches."""


class _Flow(NamedTuple):
    """Processes of one kind that take from queues."""

    pids: list[int]
    queues: list[QueueView]
    speeds: list[float]
    """Items a second of each, the slowest first."""
    unit: str

    @property
    def speed(self) -> str:
        """Of the slowest and the fastest of them."""
        return f"{fmt.between(speed(self.speeds[0]), speed(self.speeds[-1]))} {self.unit}/s"

    @property
    def each(self) -> str:
        """What to say behind the speed of several."""
        return " each" if len(self.pids) > 1 else ""


def throughput(scene: Scene, width: int, most: int) -> list[Line]:
    """On what ranks spend their time; `rank 0–7 get 3.1–3.4 batches/s each, 0–4 ready`: of loaders, else of each kind of
    process that takes items.
    """
    told = [plain(line) for line in in_words(scene.diagnosis, scene.now)]
    lines = [_now(scene, flow) for flow in _flows(scene, scene.rates.by_taker) if not _is_told(scene, flow)]
    return [clip(line, width) for line in (*told, *lines[:most], *_collectives(scene))]


def _is_told(scene: Scene, flow: _Flow) -> bool:
    """The sentence above says it, in the same numbers."""
    paces = scene.diagnosis.paces
    whole = bool(paces) and all(row.batches_per_s for row in paces)
    return whole and set(flow.pids) == {row.pid for row in paces}


def throughput_before(scene: Scene, most: int) -> list[str]:
    """`rank 0–7 got 3.1–3.4 batches/s each until 12:04:31`: what got through before the hang began, if mpmon saw that."""
    if scene.since_found is None:
        return []
    until = fmt.clock(scene.since_found)
    moving = [flow for flow in _flows(scene, scene.rates_before.by_taker) if flow.speeds[-1]]
    return [f"{short_names(scene, f.pids)} got {f.speed}{f.each} until {until}" for f in moving][:most]


def _flows(scene: Scene, by_taker: dict[int, float]) -> list[_Flow]:
    """Who takes how much: of loaders, else of each kind of process that takes items."""
    taken: defaultdict[int, list[QueueView]] = defaultdict(list)
    for view in scene.ipc.queues if by_taker else ():
        for pid in view.consumers:
            if pid in by_taker and "consumers" not in view.reasons:
                taken[pid].append(view)
    loads = {pid: views for pid, views in taken.items() if any(_is_loader(view) for view in views)}
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for pid in loads or taken:
        kinds[kind_of(scene.role(pid)).name].append(pid)
    unit = "batches" if loads else "items"
    return [
        _Flow(sorted(pids), [v for pid in pids for v in taken[pid]], sorted(by_taker[pid] for pid in pids), unit)
        for pids in kinds.values()
    ]


def _collectives(scene: Scene) -> list[Line]:
    """`rank 0–7 begin 41–42 collectives/s each`, where a Flight Recorder tells."""
    if not scene.collective_rates:
        return []
    ranks = {view.rank: pid for pid, view in scene.views.items() if scene.is_rank(pid)}
    told = ((pid or ranks.get(rank), speed) for (rank, pid), speed in scene.collective_rates.items())
    known = {pid: speed for pid, speed in told if pid in scene.views}
    if not known:
        return []
    flow = _Flow(sorted(known), [], sorted(known.values()), "collectives")
    who = f"{short_names(scene, flow.pids)} {'begins' if len(known) == 1 else 'begin'} "
    return [((who, ""), (flow.speed, "good"), (flow.each, ""))]


def _is_loader(view: QueueView) -> bool:
    return (view.name or "").startswith(LOADER)


def _now(scene: Scene, flow: _Flow) -> Line:
    """What these take, and what lies ready for them."""
    depths = sorted(view.depth for view in flow.queues if view.depth is not None)
    who = f"{short_names(scene, flow.pids)} {'gets' if len(flow.pids) == 1 else 'get'} "
    ready = f", {fmt.between(str(depths[0]), str(depths[-1]))} ready" if depths else ""
    return ((who, ""), (flow.speed, "good"), (flow.each + ready, ""))
