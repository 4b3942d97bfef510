"""The columns of the list of GPUs: what each shows, and which are left out when space is short. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from mpmon.tui import format as fmt
from mpmon.tui.gauges import bar
from mpmon.tui.line import Line, Span, cells, clip, fit
from mpmon.tui.tables.heading import MARK
from mpmon.tui.trends import TRACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpmon.tui.tables.gpu_rows import GpuRow


@dataclass(frozen=True)
class Column:
    """One column."""

    title: str
    width: int
    """At least."""
    spans: Callable[[GpuRow, int], Line]
    """What it shows of a row in so many cells."""
    priority: int
    """The column with the lowest number is left out first."""
    right: bool = False
    max_width: int = 0
    """How wide it becomes where there is room."""
    whole: Callable[[GpuRow], str] | None = None
    """A text that is never cut: the column is as wide as the longest."""


def _words(title: str, width: int, priority: int, text: Callable[[GpuRow], str], *, max_width: int = 0) -> Column:
    """A column of words, cut where they must be."""
    return Column(title, width, lambda row, room: _plain(row, fit(text(row), room)), priority, max_width=max_width)


def _number(title: str, width: int, priority: int, text: Callable[[GpuRow], str]) -> Column:
    """A column of numbers."""
    return Column(
        title, width, lambda row, room: _plain(row, fit(text(row), room, right=True)), priority, right=True, whole=text
    )


def _plain(row: GpuRow, text: str) -> Line:
    return ((text, "dim" if row.old else ""),)


def _bar(row: GpuRow, width: int) -> Line:
    filled, rest = bar(row.full, width)
    return ((filled, "dim" if row.old else "title"), (rest, "dim"))


def _utilization(row: GpuRow, width: int) -> Line:
    """Green while it works: load is good here."""
    style = "dim" if row.old or not row.utilization else "warn" if row.spins else "good"
    return ((fit(fmt.percent(row.utilization), width, right=True), style),)


def _history(row: GpuRow, width: int, *, track: int, style: str) -> Line:
    spins = row.spins and track == 0
    history = row.histories[track] if row.histories else ""
    return ((fit(history, width), "waste" if spins else style),)


def _notes(row: GpuRow, width: int) -> Line:
    notes = clip(row.notes, width)
    return (*notes, (" " * (width - cells(notes)), ""))


COLUMNS: tuple[Column, ...] = (
    _number("gpu", 3, 10, lambda r: r.label),
    _words("used by", 8, 8, lambda r: r.users, max_width=20),
    _words("cuda:", 5, 1, lambda r: r.cuda),
    Column("memory", 7, _bar, 2, max_width=16),
    _number("GiB", 9, 7, lambda r: r.memory),
    Column("util", 4, _utilization, 9, right=True),
    _number("sm%", 3, 6, lambda r: fmt.percent(r.sm)),
    _number("W", 7, 5, lambda r: r.power),
    _number("°C", 3, 4, lambda r: r.temperature),
)
"""From the left, then the histories and what matters."""

HISTORIES = tuple(
    Column(title, 10, partial(_history, track=number, style=style), 3, right=True)
    for number, (title, style) in enumerate([*((t.title, t.style) for t in TRACKS), ("cpu", "dim")])
)
"""All on one axis, whose newest end is at the right. The last one is that of the process that uses the GPU."""

NOTES = Column("", 14, _notes, 11, max_width=28)

HISTORY_BESIDE_OTHERS = 20
"""Cells of a history where there is more than one."""


class Plan(NamedTuple):
    """Columns that fit, and how wide each is."""

    columns: tuple[tuple[Column, int], ...] = ()

    @property
    def histories(self) -> tuple[int, int]:
        """How many histories there are, and how wide each is: all alike, so that they have one time axis."""
        widths = [width for column, width in self.columns if column in HISTORIES]
        return (len(widths), widths[0] if widths else 0)


def plan(width: int, rows: Sequence[GpuRow]) -> Plan:
    """Leaves out the least important columns until the others have room; what is left over goes to the histories."""
    users = max((cell_len(row.users) for row in rows), default=0)
    return _planned(width, tuple(_whole(column, rows) for column in COLUMNS), users)


@lru_cache(maxsize=16)
def _planned(width: int, least: tuple[int, ...], users: int) -> Plan:
    """With at least so many cells for each column, and so many for the longest name of who uses a GPU."""
    whole = (replace(column, width=room) for column, room in zip(COLUMNS, least, strict=True))
    columns = [*whole, HISTORIES[0], NOTES]
    while len(columns) > 1 and _taken(columns) > width:
        columns.remove(min(columns, key=lambda c: c.priority))
    if HISTORIES[0] not in columns:
        return Plan(tuple((c, c.width) for c in columns))
    extra = width - _taken(columns)
    for more in range(len(HISTORIES) - 1, 0, -1):
        needed = more * (HISTORY_BESIDE_OTHERS + 1) + HISTORY_BESIDE_OTHERS - HISTORIES[0].width
        if extra >= needed:
            columns[-1:-1] = HISTORIES[1 : 1 + more]
            break
    return Plan(tuple(_grown(columns, width, users)))


def _whole(column: Column, rows: Sequence[GpuRow]) -> int:
    """How wide the column must be for what must not be cut."""
    if column.whole is None:
        return column.width
    return max([column.width, *(cell_len(column.whole(row)) for row in rows)])


def _taken(columns: Sequence[Column]) -> int:
    return MARK + sum(c.width + 1 for c in columns) - 1


def _grown(columns: list[Column], width: int, users: int) -> list[tuple[Column, int]]:
    """Each column with its share of the room that is left; histories all alike."""
    widths = {column: column.width for column in columns}
    histories = [column for column in columns if column in HISTORIES]
    if len(histories) > 1:
        widths |= dict.fromkeys(histories, HISTORY_BESIDE_OTHERS)
    extra = width - MARK - sum(widths.values()) - len(columns) + 1
    for column in (c for c in columns if c.max_width):
        more = min(extra // 2, (users if column.title == "used by" else column.max_width) - column.width)
        widths[column] += max(0, more)
        extra -= max(0, more)
    for column in histories:
        widths[column] += extra // len(histories)
    widths[columns[-1]] += extra % len(histories)
    return list(widths.items())


def names(plan: Plan, span: str) -> list[tuple[str, int, bool]]:
    """Name, width and side of each column, for the heading; `span` says how far back the histories go."""
    return [(f"{c.title} {span}" if c in HISTORIES else c.title, width, c.right) for c, width in plan.columns]


def line(row: GpuRow, plan: Plan) -> Line:
    """One GPU; where the worst of its troubles has no room the histories give theirs."""
    spans: list[Span] = [("› " if row.selected else "  ", "place")]
    for column, width in _fitted(row, plan):
        spans += [*column.spans(row, width), (" ", "")]
    return tuple(spans[:-1])


def _fitted(row: GpuRow, plan: Plan) -> list[tuple[Column, int]]:
    """The columns, without the last histories where the notes need their room."""
    columns = list(plan.columns)
    needed = cells(row.notes[:1]) if row.trouble else 0
    while len(columns) > 1 and columns[-1][1] < needed and columns[-2][0] in HISTORIES:
        _, room = columns.pop(-2)
        columns[-1] = (columns[-1][0], columns[-1][1] + room + 1)
    return columns
