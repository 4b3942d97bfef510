"""The columns of the process list: what each shows, how it sorts, and which are left out when space is short."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from mpmon.diagnosis.memory import others
from mpmon.tui import format as fmt
from mpmon.tui.describe.crowd import in_short
from mpmon.tui.line import Line, fit
from mpmon.tui.order import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from mpmon.diagnosis.findings import ProcessView
    from mpmon.model import Process
    from mpmon.tui.order import Branch
    from mpmon.tui.scene import Scene


SortKey = float | str | tuple[tuple[int, int | str], ...]
"""What rows are compared by; within one order always the same kind."""


class Row(NamedTuple):
    """One process as the list shows it, or several that share a line.

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
    members: tuple[int, ...] = ()
    """Who shares the line; empty for one alone."""
    tagged: bool = False
    gpu: str = ""
    gpu_memory: int | None = None
    gpu_sm: int | None = None
    history: str = ""
    """CPU it used lately, where there is room for it."""


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


MIXED = "mixed"
"""The state of several that are not in the same one."""

MOODS = ("suspect", "dead", "stopped", "waiting", MIXED, "working", "idle")
"""What to look at comes first."""


def _trouble(row: Row) -> float:
    """The place of its state; others come last."""
    return MOODS.index(row.mood) if row.mood in MOODS else len(MOODS)


GPU_WIDTH = 3

COLUMNS: tuple[Column, ...] = (
    Column(
        "pid", 7, lambda r: f"×{len(r.members)}" if r.members else str(r.pid), lambda r: r.pid, 9, largest_first=False
    ),
    Column("state", 8, lambda r: r.mood or fmt.UNKNOWN, _trouble, 8, right=False, largest_first=False),
    Column("gpu", GPU_WIDTH, lambda r: r.gpu or fmt.UNKNOWN, lambda r: r.gpu, 5, gpu=True, largest_first=False),
    Column("gmem", 5, lambda r: fmt.size(r.gpu_memory), lambda r: _first(r.gpu_memory), 7, gpu=True),
    Column("sm%", 4, lambda r: fmt.percent(r.gpu_sm), lambda r: _first(r.gpu_sm), 4, gpu=True),
    Column("cpu%", 5, lambda r: fmt.percent(r.cpu), lambda r: _first(r.cpu), 6),
    Column("rss", 5, lambda r: fmt.size(r.rss), lambda r: _first(r.rss), 3),
    Column("still", 6, lambda r: fmt.short_age(r.still_s), lambda r: _first(r.still_s), 2),
)
"""Between the role at the left and what the process does at the right, which take the room that is left."""

HISTORY = Column("cpu", 12, lambda r: r.history, lambda r: r.history, 0)
"""Behind the others on a wide screen; nobody sorts by it."""

ROLE = "role"
"""Name of the order by role."""


@dataclass(frozen=True)
class Sort:
    """One order of the list."""

    name: str
    key: Callable[[Row], SortKey]
    largest_first: bool


def sorts(*, gpus: bool) -> tuple[Sort, ...]:
    """The orders there are: by role, which is always shown, and by each column."""
    by_column = (Sort(c.title, c.sort, c.largest_first) for c in COLUMNS if gpus or not c.gpu)
    return (Sort(ROLE, lambda r: natural(r.role), largest_first=False), *by_column)


STATED = {"waiting": "waiting for ", "idle": "idle, "}
"""How an action may begin with what the column of states says already."""

DOES_AT_EASE = 28
"""Cells in which most actions are whole."""

MARK = 2
TAG = "*"
ROLE_AT_LEAST, DOES_AT_LEAST = 12, 16
ROLE_AT_EASE, DOES_AND_PLACE = 24, 22
"""Cells in which a role keeps its number, and an action says more than the state does."""

DISPENSABLE = 4
"""Columns up to this `keep` give way to that."""

NAME_AT_LEAST = 6
"""Of a name before its numbers."""

MOOD_STYLES = {"suspect": "bad", "dead": "bad", "stopped": "warn", "idle": "dim", "working": "good"}


class Plan(NamedTuple):
    """Which columns fit, and how wide the two elastic ones are."""

    columns: tuple[Column, ...]
    role: int
    does: int


def plan(width: int, role: int, *, gpus: bool, history: bool = False) -> Plan:
    """Leaves out the least important columns until role and action have room: some for their ease, others for the least.

    Args:
        width: Cells of the panel.
        role: Cells the longest role wants, with its branches.
        gpus: Whether there are GPUs to show.
        history: Whether to show what CPU each used lately, if the action keeps as much room as it may need.
    """
    columns = [c for c in COLUMNS if gpus or not c.gpu]
    while True:
        room = width - MARK - sum(c.width + 1 for c in columns) - 1
        first = min(columns, key=lambda c: c.keep, default=None)
        at_ease = first is not None and first.keep <= DISPENSABLE
        wanted = min(role, ROLE_AT_EASE) + DOES_AND_PLACE if at_ease else ROLE_AT_LEAST + DOES_AT_LEAST
        if first is None or room >= wanted:
            break
        columns.remove(first)
    role_width = max(ROLE_AT_LEAST, min(role, room - DOES_AND_PLACE))
    found = Plan(tuple(columns), role_width, max(0, room - role_width))
    return _with_history(found) if history else found


def _with_history(plan: Plan) -> Plan:
    """One more column where there is room for it."""
    does = plan.does - HISTORY.width - 1
    return plan._replace(columns=(*plan.columns, HISTORY), does=does) if does >= DOES_AT_EASE else plan


def heading(plan: Plan, span: str = "") -> Line:
    """Names of the columns; `span` says how far back the history goes."""
    names = ((f"{c.title} {span}" if c is HISTORY else c.title, c) for c in plan.columns)
    titles = "".join(" " + fit(name, c.width, right=c.right) for name, c in names)
    return ((fit(" " * MARK + "process", MARK + plan.role), "dim"), (titles + " does", "dim"))


def line(row: Row, plan: Plan) -> Line:
    """One process: marks for suspects and tags, its branch and role, the columns, and what it does."""
    style = "bad" if row.suspect else "dim" if row.mood == "idle" else ""
    role = fit(row.prefix + _named(row, plan.role - len(row.prefix)), plan.role)
    cut = min(len(row.prefix), len(role))
    marks = ("▶" if row.suspect else " ") + (TAG if row.tagged else " ")
    spans = [(marks, style), (role[:cut], "dim"), (role[cut:], style)]
    for column in plan.columns:
        text = " " + fit(column.text(row), column.width, right=column.right)
        look = MOOD_STYLES.get(row.mood, "") if column.title == "state" else "dim" if column is HISTORY else style
        spans.append((text, look))
    said = STATED.get(row.mood, "") if any(column.title == "state" for column in plan.columns) else ""
    return (*spans, (" " + fit(row.does.removeprefix(said), plan.does), style))


def _named(row: Row, room: int) -> str:
    """The role, and how many are folded below it; what comes last stays whole, for it tells one from the others."""
    folded = f" +{row.hidden}" if row.hidden else ""
    text = row.role + folded
    name, _, numbers = row.role.rpartition(" ")
    left = room - cell_len(f" {numbers}{folded}")
    if cell_len(text) <= room or left < NAME_AT_LEAST:
        return text
    return f"{fit(name, left)} {numbers}{folded}"


def column_at(plan: Plan, at: int) -> str | None:
    """The name of the order by the column that is drawn there; `None` beside all columns."""
    end = MARK + plan.role
    if at < end:
        return ROLE
    for column in plan.columns:
        end += 1 + column.width
        if at < end:
            return column.title
    return None


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


class _Crowd(NamedTuple):
    """Those that share a line."""

    row: Row
    """That of the line, but for what depends on time and place."""
    rows: dict[int, Row]
    """Of each, by pid."""
    since: dict[int, float | None]
    """Since when each stands still."""

    def at(self, now: float, branch: Branch) -> Row:
        """The row of this moment."""
        known = [moment for moment in self.since.values() if moment is not None]
        still = fmt.steady(now - max(known)) if len(known) == len(self.since) else None
        return self.row._replace(prefix=branch.prefix, hidden=branch.hidden, still_s=still)


class Rows:
    """Makes rows, and keeps those of the scene before: processes of which nothing changed keep their row."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Facts, Row]] = {}
        self._crowds: dict[tuple[int, ...], _Crowd] = {}
        self._scene: Scene | None = None

    def of(self, scene: Scene, branches: Iterable[Branch], tagged: Container[int] = ()) -> list[Row]:
        """The rows of these branches."""
        changed = _changed(self._scene, scene)
        self._scene = scene
        before, self._kept = self._kept, {}
        crowds, self._crowds = self._crowds, {}
        rows: list[Row] = []
        for branch in branches:
            if branch.members:
                row = self._crowd(
                    scene, branch, None if changed is None else crowds.get(branch.members), changed or set()
                )
            else:
                row = self._row(scene, branch.pid, branch, before)
            if tagged and any(pid in tagged for pid in branch.members or (branch.pid,)):
                row = row._replace(tagged=True)
            rows.append(_with_gpu(scene, row) if scene.snapshot.gpus else row)
        return rows

    def _crowd(self, scene: Scene, branch: Branch, known: _Crowd | None, changed: set[int]) -> Row:
        """Several that share a line; where there is one from before, only those that changed since are thought about."""
        pids = branch.members
        again = pids if known is None else changed.intersection(pids)
        rows = {pid: self._row(scene, pid, branch, {}) for pid in again}
        since = {pid: scene.views[pid].still_since for pid in again}
        if known is None:
            crowd = _Crowd(_together(pids, rows.values(), in_short(scene, pids)), rows, since)
        elif rows:
            same = all(row.role == known.rows[pid].role for pid, row in rows.items())
            name = known.row.role if same else in_short(scene, pids)
            rows, since = known.rows | rows, known.since | since
            crowd = _Crowd(_together(pids, rows.values(), name), rows, since)
        else:
            crowd = known
        self._crowds[pids] = crowd
        return crowd.at(scene.now, branch)

    def _row(self, scene: Scene, pid: int, branch: Branch, before: dict[int, tuple[_Facts, Row]]) -> Row:
        view = scene.views[pid]
        still = None if view.still_since is None else fmt.steady(scene.now - view.still_since)
        facts = _Facts(
            view, scene.processes.get(pid), branch.prefix, branch.hidden, still, pid in scene.suspects,
            scene.waiters.get(pid, ""),
        )  # fmt: skip
        kept = before.get(pid)
        if kept is None or kept[0] != facts:
            kept = (facts, facts.row())
        self._kept[pid] = kept
        return kept[1]


def _changed(before: Scene | None, now: Scene) -> set[int] | None:
    """Processes of which something else is known or said than before; `None` where that may be so of all."""
    if before is None or before.snapshot.exits is not now.snapshot.exits:
        return None
    if before.suspects != now.suspects or before.waiters != now.waiters:
        return None
    rows = others(before.snapshot.processes, now.snapshot.processes)
    views = others(before.diagnosis.processes, now.diagnosis.processes)
    return None if rows is None or views is None else {row.pid for _, row in (*rows, *views)}


def _together(pids: tuple[int, ...], members: Iterable[Row], name: str) -> Row:
    """One row for several: sums, which are unknown unless every part is known, and what they do, or how many do what."""
    rows = list(members)
    moods, does = Counter(row.mood for row in rows), {row.does for row in rows}
    counted = ", ".join(f"{count} {mood or 'unknown'}" for mood, count in moods.most_common())
    return rows[0]._replace(
        role=name,
        members=pids,
        mood=rows[0].mood if len(moods) == 1 else MIXED,
        does=rows[0].does if len(does) == 1 else counted,
        cpu=_sum([row.cpu for row in rows]),
        rss=_sum([row.rss for row in rows]),
    )


def _sum(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _with_gpu(scene: Scene, row: Row) -> Row:
    """Adds what it uses of GPUs, with those folded below it; sums are unknown unless every part is known."""
    found = scene.gpu_branches if row.hidden else scene.gpu_processes
    pids = found.keys() & row.members if row.members else (row.pid,)
    parts = [part for pid in pids for part in found.get(pid, ())]
    if not parts:
        return row
    memory = [p.memory_bytes for p in parts if p.memory_bytes is not None]
    sm = [p.sm_percent for p in parts if p.sm_percent is not None]
    return row._replace(
        gpu=_places({(scene.gpu_index[p.gpu_uuid], p.mig_instance) for p in parts if p.gpu_uuid in scene.gpu_index}),
        gpu_memory=sum(memory) if len(memory) == len(parts) else None,
        gpu_sm=round(sum(sm)) if len(sm) == len(parts) else None,
    )


def _places(found: set[tuple[int, int | None]]) -> str:
    """`0–7`, `0:1`; how many, where their names would not fit."""
    said = fmt.places(found)
    return said if len(said) <= GPU_WIDTH else f"×{len(found)}"
