"""The GPUs of this machine: how full and how busy each is, who is on it, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mpmon.tui import format as fmt
from mpmon.tui.line import Line
from mpmon.tui.tables.gpu_columns import Plan, line, names, plan
from mpmon.tui.tables.gpu_rows import GpuRow, gpu_rows
from mpmon.tui.trends import TRACKS, Trends, step_for
from mpmon.tui.widgets.table import SmallTable

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene


class GpusPanel(SmallTable[GpuRow]):
    """One row for each GPU, which stands for the process of the job on it. Not there where there are no GPUs."""

    TITLE: ClassVar[str] = "gpus"

    def __init__(self) -> None:
        super().__init__()
        self._plan = Plan()
        self._trends = Trends()
        self.set_absent(absent=True)

    # What is shown

    def repaint(self) -> None:
        """One row a GPU; those equal to before cost nothing."""
        if self.scene is None:
            return
        self.set_absent(absent=not self.scene.snapshot.gpus)
        if self.absent:
            self.show_rows(())
            return
        rows = gpu_rows(self.scene, self.selected)
        planned = plan(self.size.width, rows)
        if planned != self._plan:
            self._plan = planned
            self.redraw()
        self.show_rows(self._with_histories(self.scene, rows))
        self.noted(_note(self.scene))
        self._follow_selection()

    def draw_row(self, row: GpuRow, width: int) -> Line:
        """One GPU."""
        del width
        return line(row, self._plan)

    def _follow_selection(self) -> None:
        """Keeps the GPU of the selected process in view while the keys are elsewhere."""
        at = next((index for index, row in enumerate(self.rows) if row.selected), None)
        if at is not None and at != self.cursor and not self.has_focus:
            self.move_cursor(at)

    def _with_histories(self, scene: Scene, rows: list[GpuRow]) -> list[GpuRow]:
        count, width = self._plan.histories
        if not count:
            return rows
        trend = scene.observation.trend
        self._trends.take(trend, step_for(trend, width), width)
        return [row._replace(histories=self._histories(scene, row, count)) for row in rows]

    def _histories(self, scene: Scene, row: GpuRow, count: int) -> tuple[str, ...]:
        """Of the GPU, then of the process that has the most memory on it."""
        found = [self._trends.history(row.uuid, track) for track in TRACKS[:count]]
        user = scene.processes.get(row.pid) if row.pid is not None and count > len(TRACKS) else None
        return (*found, self._trends.cpu(user) if user else "")[:count]

    # Title

    def names(self) -> list[tuple[str, int, bool]]:
        """The columns that fit."""
        return names(self._plan, fmt.span(self._trends.span_s))

    def count(self) -> int:
        """GPUs, without the instances on them."""
        return len(self.scene.snapshot.gpus) if self.scene else 0

    def _position(self) -> str:
        """What is in view, and how many in trouble are not."""
        position = super()._position()
        first, last = self.view_range
        hidden = sum(row.trouble for number, row in enumerate(self.rows, 1) if not first <= number <= last)
        return f"{position}· {hidden} in trouble " if position and hidden else position

    # Selection

    def watch_selected(self) -> None:
        """The selection was set from above: its GPU is marked and in view."""
        if self.is_mounted:
            self.repaint()


def _note(scene: Scene) -> str:
    """`8 × H100 80GB HBM3 · driver 580.65.06 · 4.9 kW`."""
    gpus = scene.snapshot.gpus
    names = {gpu.name.removeprefix("NVIDIA ") for gpu in gpus}
    parts = [f"{len(gpus)} × {names.pop()}" if len(names) == 1 else str(len(gpus))]
    if scene.snapshot.driver:
        parts.append(f"driver {scene.snapshot.driver}")
    watts = [gpu.power_watts for gpu in gpus if gpu.power_watts is not None and gpu.problem is None]
    if len(watts) == len(gpus):
        parts.append(f"{sum(watts) / 1000:.1f} kW")
    return " · ".join(parts)
