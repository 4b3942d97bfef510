"""The columns of the process list: what each shows, how it sorts, and which are left out when space is short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mpmon.tui import format as fmt
from mpmon.tui.line import Line, fit
from mpmon.tui.order import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpmon.diagnosis.findings import ProcessView
    from mpmon.model import Process
    from mpmon.tui.scene import Scene


SortKey = float | str | tuple[tuple[int, int | str], ...]
"""What rows are compared by; within one order always the same kind."""


class Row(NamedTuple):
    """One process as the list shows it.

    Numbers are rounded to what is shown, so that a row is equal to the one before unless its line would differ.
    """

    pid: int
    role: str
    prefix: str
    hidden: int
    suspect: bool
    mood: str
    does: str
    cpu: int | None
    rss: int | None
    still_s: int | None
    gpu: str = ""
    gpu_memory: int | None = None
    gpu_sm: int | None = None


@dataclass(frozen=True)
class Column:
    """One column."""

    title: str
    width: int
    text: Callable[[Row], str]
    sort: Callable[[Row], SortKey]
    keep: int
    """The column with the lowest number is left out first."""
    right: bool = True
    largest_first: bool = True
    gpu: bool = False
    """Only where there are GPUs."""


def _first(value: float | None) -> float:
    """Unknown sorts below everything known."""
    return -1.0 if value is None else value


COLUMNS: tuple[Column, ...] = (
    Column("pid", 7, lambda r: str(r.pid), lambda r: r.pid, 9, largest_first=False),
    Column("state", 8, lambda r: r.mood or fmt.UNKNOWN, lambda r: r.mood, 8, right=False, largest_first=False),
    Column("gpu", 3, lambda r: r.gpu or fmt.UNKNOWN, lambda r: r.gpu, 5, gpu=True, largest_first=False),
    Column("gmem", 5, lambda r: fmt.size(r.gpu_memory), lambda r: _first(r.gpu_memory), 7, gpu=True),
    Column("sm%", 4, lambda r: fmt.percent(r.gpu_sm), lambda r: _first(r.gpu_sm), 4, gpu=True),
    Column("cpu%", 5, lambda r: fmt.percent(r.cpu), lambda r: _first(r.cpu), 6),
    Column("rss", 5, lambda r: fmt.size(r.rss), lambda r: _first(r.rss), 3),
    Column("still", 6, lambda r: fmt.short_age(r.still_s), lambda r: _first(r.still_s), 2),
)
"""Between the role at the left and what the process does at the right, which take the room that is left."""


@dataclass(frozen=True)
class Sort:
    """One order of the list."""

    name: str
    key: Callable[[Row], SortKey]
    largest_first: bool


def sorts(*, gpus: bool) -> tuple[Sort, ...]:
    """The orders there are: by role, which is always shown, and by each column."""
    by_column = (Sort(c.title, c.sort, c.largest_first) for c in COLUMNS if gpus or not c.gpu)
    return (Sort("role", lambda r: natural(r.role), largest_first=False), *by_column)


MARK = 2
ROLE_AT_LEAST, DOES_AT_LEAST = 12, 16

MOOD_STYLES = {"suspect": "bad", "dead": "bad", "stopped": "warn", "idle": "dim", "working": "good"}


class Plan(NamedTuple):
    """Which columns fit, and how wide the two elastic ones are."""

    columns: tuple[Column, ...]
    role: int
    does: int


def plan(width: int, role: int, *, gpus: bool) -> Plan:
    """Leaves out the least important columns until role and action have room.

    Args:
        width: Cells of the panel.
        role: Cells the longest role wants, with its branches.
        gpus: Whether there are GPUs to show.
    """
    columns = [c for c in COLUMNS if gpus or not c.gpu]
    while True:
        room = width - MARK - sum(c.width + 1 for c in columns) - 1
        role_width = max(ROLE_AT_LEAST, min(role, room - DOES_AT_LEAST))
        if not columns or room - role_width >= DOES_AT_LEAST:
            return Plan(tuple(columns), role_width, max(0, room - role_width))
        columns.remove(min(columns, key=lambda c: c.keep))


def heading(plan: Plan) -> Line:
    """Names of the columns."""
    titles = "".join(" " + fit(c.title, c.width, right=c.right) for c in plan.columns)
    return ((fit(" " * MARK + "process", MARK + plan.role), "dim"), (titles + " does", "dim"))


def line(row: Row, plan: Plan) -> Line:
    """One process: a mark for suspects, its branch and role, the columns, and what it does."""
    style = "bad" if row.suspect else "dim" if row.mood == "idle" else ""
    folded = f" +{row.hidden}" if row.hidden else ""
    role = fit(row.prefix + row.role + folded, plan.role)
    cut = min(len(row.prefix), len(role))
    spans = [("▶ " if row.suspect else "  ", style), (role[:cut], "dim"), (role[cut:], style)]
    for column in plan.columns:
        text = " " + fit(column.text(row), column.width, right=column.right)
        spans.append((text, MOOD_STYLES.get(row.mood, "") if column.title == "state" else style))
    return (*spans, (" " + fit(row.does, plan.does), style))


class _Facts(NamedTuple):
    """All that a row is made of, but for GPUs."""

    view: ProcessView
    process: Process | None
    prefix: str
    hidden: int
    still_s: int | None
    suspect: bool
    waits_for: str

    def row(self) -> Row:
        """What the list shows of the process."""
        view, process = self.view, self.process
        return Row(
            pid=view.pid,
            role=view.role,
            prefix=self.prefix,
            hidden=self.hidden,
            suspect=self.suspect,
            mood=view.mood or (process.state if process else "dead"),
            does=view.does or self.waits_for,
            cpu=None if view.cpu_percent is None else round(view.cpu_percent),
            rss=None if process is None else process.rss_bytes >> 20 << 20,
            still_s=self.still_s,
        )


class Rows:
    """Makes rows, and keeps those of the scene before: a process of which nothing changed keeps its row."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Facts, Row]] = {}

    def of(self, scene: Scene, branches: Iterable[tuple[int, str, int]]) -> list[Row]:
        """The rows of these processes, each with its prefix and how many are folded below it."""
        before, self._kept = self._kept, {}
        views, processes, suspects, waiters = scene.views, scene.processes, scene.suspects, scene.waiters
        rows: list[Row] = []
        for pid, prefix, hidden in branches:
            view = views[pid]
            still = None if view.still_since is None else fmt.steady(scene.now - view.still_since)
            facts = _Facts(view, processes.get(pid), prefix, hidden, still, pid in suspects, waiters.get(pid, ""))
            kept = before.get(pid)
            if kept is None or kept[0] != facts:
                kept = (facts, facts.row())
            self._kept[pid] = kept
            rows.append(_with_gpu(scene, kept[1]) if scene.snapshot.gpus else kept[1])
        return rows


def _with_gpu(scene: Scene, row: Row) -> Row:
    """Adds the devices the process uses; sums are unknown unless every part is known."""
    parts = scene.gpu_processes.get(row.pid, ())
    if not parts:
        return row
    indices = sorted({scene.gpu_index[p.gpu_uuid] for p in parts if p.gpu_uuid in scene.gpu_index})
    memory = [p.memory_bytes for p in parts if p.memory_bytes is not None]
    sm = [p.sm_percent for p in parts if p.sm_percent is not None]
    return row._replace(
        gpu=",".join(map(str, indices)),
        gpu_memory=sum(memory) if len(memory) == len(parts) else None,
        gpu_sm=round(sum(sm)) if len(sm) == len(parts) else None,
    )
