"""The columns of the process list: what each shows, how it sorts, and which are left out when space is short."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from mpmon.tui import format as fmt
from mpmon.tui.line import Line, fit
from mpmon.tui.tables.brief import WAITING, brief
from mpmon.tui.tables.heading import MARK
from mpmon.tui.tables.process_rows import GPU_WIDTH, MIXED
from mpmon.tui.tables.tree import natural

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpmon.tui.tables.process_rows import Row


SortKey = float | str | tuple[tuple[int, int | str], ...]
"""What rows are compared by; within one order always the same kind."""


@dataclass(frozen=True)
class Column:
    """One column."""

    title: str
    width: int
    text: Callable[[Row], str]
    sort: Callable[[Row], SortKey]
    priority: int
    """The column with the lowest number is left out first."""
    right: bool = True
    largest_first: bool = True
    gpu: bool = False
    """Only where there are GPUs."""
    host: bool = False
    """Only where there are several machines."""
    for_range: int = 0
    """Cells instead of `width` where a line may stand for several processes and show a range."""


def _first(value: float | None) -> float:
    """Unknown sorts below everything known."""
    return -1.0 if value is None else value


def _range(least: int | None, most: int | None) -> str:
    """`97`; of several `88–97`."""
    return fmt.percent(most) if least is None else fmt.between(fmt.percent(least), fmt.percent(most))


MOODS = ("suspect", "dead", "stopped", "waiting", MIXED, "working", "idle")
"""What to look at comes first."""


def _trouble(row: Row) -> float:
    """The place of its state; others come last."""
    return MOODS.index(row.mood) if row.mood in MOODS else len(MOODS)


COLUMNS: tuple[Column, ...] = (
    Column("host", 10, lambda r: r.host, lambda r: natural(r.host), 10, right=False, largest_first=False, host=True),
    Column(
        "pid",
        7,
        lambda r: str(r.number) if r.number and r.sharers == 1 else f"×{r.sharers}" if r.sharers else "",
        lambda r: r.pid,
        9,
        largest_first=False,
    ),
    Column("state", 8, lambda r: r.mood or fmt.UNKNOWN, _trouble, 8, right=False, largest_first=False),
    Column("gpu", GPU_WIDTH, lambda r: r.gpu or fmt.UNKNOWN, lambda r: r.gpu, 5, gpu=True, largest_first=False),
    Column("gmem", 5, lambda r: fmt.size(r.gpu_memory), lambda r: _first(r.gpu_memory), 7, gpu=True),
    Column("sm%", 4, lambda r: _range(r.gpu_sm_least, r.gpu_sm), lambda r: _first(r.gpu_sm), 4, gpu=True, for_range=6),
    Column("cpu%", 5, lambda r: _range(r.cpu_least, r.cpu), lambda r: _first(r.cpu), 6, for_range=7),
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


def _shown(column: Column, *, gpus: bool, hosts: bool) -> bool:
    """Whether there is anything in it."""
    return (gpus or not column.gpu) and (hosts or not column.host)


def sorts(*, gpus: bool, hosts: bool = False) -> tuple[Sort, ...]:
    """The orders there are: by role, which is always shown, and by each column."""
    by_column = (Sort(c.title, c.sort, c.largest_first) for c in COLUMNS if _shown(c, gpus=gpus, hosts=hosts))
    return (Sort(ROLE, lambda r: natural(r.role), largest_first=False), *by_column)


STATED = {"waiting": WAITING, "idle": "idle, "}
"""How an action may begin with what the column of states says already."""

ACTION_BESIDE_HISTORY = 28
"""Cells in which most actions are whole."""

TAG = "*"
ROLE_MIN, ACTION_MIN = 12, 16
ROLE_COMFORTABLE, ACTION_COMFORTABLE = 24, 22
"""Cells in which a role keeps its number, and an action says more than the state does."""

ACTION_AND_PLACE = 26
"""Cells in which an action keeps its file and line, if the role can spare them."""

DISPENSABLE = 4
"""Columns up to this `priority` give way to that."""

NAME_MIN = 6
"""Of a name before its numbers."""

SUSPECT, SLOWEST = "▶", "›"
"""Marks of who blocks the others, and of the rank that the others wait for most of the time."""

MOOD_STYLES = {"suspect": "bad", "dead": "bad", "stopped": "warn", "idle": "dim", "working": "good"}


class Plan(NamedTuple):
    """Which columns fit, and how wide the two elastic ones are."""

    columns: tuple[Column, ...]
    role: int
    does: int


def plan(
    width: int, role: int, *, gpus: bool, hosts: bool = False, history: bool = False, ranges: bool = False
) -> Plan:
    """Leaves out the least important columns until role and action have room: some for their ease, others for the least.

    Args:
        width: Cells of the panel.
        role: Cells the longest role wants, with its branches.
        gpus: Whether there are GPUs to show.
        hosts: Whether there are several machines.
        history: Whether to show what CPU each used lately, if the action keeps as much room as it may need.
        ranges: Whether a line may stand for several processes.
    """
    columns = [_as_range(c) if ranges else c for c in COLUMNS if _shown(c, gpus=gpus, hosts=hosts)]
    while True:
        room = width - MARK - sum(c.width + 1 for c in columns) - 1
        first = min(columns, key=lambda c: c.priority, default=None)
        at_ease = first is not None and first.priority <= DISPENSABLE
        wanted = min(role, ROLE_COMFORTABLE) + ACTION_COMFORTABLE if at_ease else ROLE_MIN + ACTION_MIN
        if first is None or room >= wanted:
            break
        columns.remove(first)
    role_width = max(ROLE_MIN, min(role, room - ACTION_AND_PLACE))
    found = Plan(tuple(columns), role_width, max(0, room - role_width))
    return _with_history(found) if history else found


def _as_range(column: Column) -> Column:
    """The column with room for a range."""
    return replace(column, width=column.for_range) if column.for_range else column


def _with_history(plan: Plan) -> Plan:
    """One more column where there is room for it."""
    does = plan.does - HISTORY.width - 1
    return plan._replace(columns=(*plan.columns, HISTORY), does=does) if does >= ACTION_BESIDE_HISTORY else plan


def heading(plan: Plan, span: str = "") -> Line:
    """Names of the columns; `span` says how far back the history goes."""
    names = ((f"{c.title} {span}" if c is HISTORY else c.title, c) for c in plan.columns)
    titles = "".join(" " + fit(name, c.width, right=c.right) for name, c in names)
    return ((fit(" " * MARK + "process", MARK + plan.role), "dim"), (titles + " does", "dim"))


def line(row: Row, plan: Plan) -> Line:
    """One process: marks for suspects and tags, its branch and role, the columns, and what it does."""
    style = "bad" if row.suspect else "warn" if row.slowest else "dim" if row.mood == "idle" or row.late else ""
    role = fit(row.prefix + _named(row, plan.role - len(row.prefix)), plan.role)
    cut = min(len(row.prefix), len(role))
    marks = (SUSPECT if row.suspect else SLOWEST if row.slowest else " ") + (TAG if row.tagged else " ")
    spans = [(marks, style), (role[:cut], "dim"), (role[cut:], style)]
    for column in plan.columns:
        text = " " + fit(column.text(row), column.width, right=column.right)
        of_state = column.title == "state" and not row.late
        look = MOOD_STYLES.get(row.mood, "") if of_state else "dim" if column is HISTORY else style
        spans.append((text, look))
    said = STATED.get(row.mood, "") if any(column.title == "state" for column in plan.columns) else ""
    return (*spans, (" " + fit(brief(row.does.removeprefix(said), plan.does), plan.does), style))


def _named(row: Row, room: int) -> str:
    """The role, and how many are folded below it; what comes last stays whole, for it tells one from the others."""
    folded = f" +{row.hidden}" if row.hidden else ""
    text = row.role + folded
    name, _, numbers = row.role.rpartition(" ")
    left = room - cell_len(f" {numbers}{folded}")
    if cell_len(text) <= room or left < NAME_MIN:
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
