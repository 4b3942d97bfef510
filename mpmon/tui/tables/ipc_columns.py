"""The columns of the list of what is shared, and how the width is given to them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from mpmon.tui.gauges import bar
from mpmon.tui.line import Line, Span, cells, clip, fit
from mpmon.tui.tables.heading import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpmon.tui.tables.ipc_row import IpcRow

GAP = 1
"""More cells before what matters."""

BAR = 6
"""Cells of a bar, where there is room."""


@dataclass(frozen=True)
class Column:
    """One column of texts."""

    title: str
    text: Callable[[IpcRow], str]
    min_width: int
    """Cells it has at least, if its texts want them."""
    right: bool = False


WHAT = Column("shared", lambda row: row.what, 20)
AMOUNT = Column("items", lambda row: row.amount, 9, right=True)
SIZE = Column("bytes", lambda row: row.size, 5, right=True)
RATE = Column("gets/s", lambda row: row.rate, 6, right=True)
WHO = Column("from → to", lambda row: row.who, 16)

WHAT_PERCENT, NOTES_PERCENT = 30, 60
"""Where not all fits: of all words, and of the words behind that."""


class Plan(NamedTuple):
    """How wide each part is; 0 leaves it out."""

    what: int = 0
    amount: int = 0
    bar: int = 0
    size: int = 0
    rate: int = 0
    who: int = 0
    notes: int = 0

    @property
    def parts(self) -> tuple[tuple[Column, int], ...]:
        """The columns of texts with their widths, without the bar."""
        return ((WHAT, self.what), (AMOUNT, self.amount), (SIZE, self.size), (RATE, self.rate), (WHO, self.who))

    @property
    def names(self) -> list[tuple[str, int, bool]]:
        """Name, width and side of each column, for the heading."""
        found = [(column.title, width, column.right) for column, width in self.parts]
        after_amount = self.parts.index((AMOUNT, self.amount)) + 1
        return [*found[:after_amount], ("", self.bar, False), *found[after_amount:]]


def plan(width: int, rows: Sequence[IpcRow]) -> Plan:
    """Numbers whole, words as wide as they want while there is room, and what matters before who it is about."""
    amount, size = _wanted(AMOUNT, rows), _wanted(SIZE, rows)
    rate = _wanted(RATE, rows) if any(row.rate for row in rows) else 0
    what, who = _wanted(WHAT, rows), _wanted(WHO, rows)
    notes = max((cells(row.notes) for row in rows), default=0)
    room = width - MARK - GAP - sum(part + 1 for part in (amount, size, rate) if part)
    bar_width = BAR if any(row.full for row in rows) and room - BAR - 1 >= what + who + notes + 2 else 0
    room -= bar_width + 1 if bar_width else 0
    what = min(what, max(WHAT.min_width, room * WHAT_PERCENT // 100))
    left = room - what - 2
    who = max(0, min(who, max(WHO.min_width, left - min(notes, left * NOTES_PERCENT // 100))))
    return Plan(what, amount, bar_width, size, rate, who, max(0, room - what - who - 2))


def _wanted(column: Column, rows: Sequence[IpcRow]) -> int:
    return max(cell_len(text) for text in (column.title, *(column.text(row) for row in rows)))


def line(row: IpcRow, plan: Plan) -> Line:
    """One row; a queue that one who must move first should read is marked as that one is."""
    spans: list[Span] = [("▶ " if row.suspect else "! " if row.pressing else "  ", _style(row))]
    for column, width in plan.parts:
        if width:
            style = "bad" if column is WHAT and row.suspect else ""
            spans += [(fit(column.text(row), width, right=column.right), style), (" ", "")]
        if column is AMOUNT and plan.bar:
            filled, rest = bar(row.full, plan.bar) if row.full is not None else (" " * plan.bar, "")
            spans += [(filled, "title"), (rest, "dim"), (" ", "")]
    notes = clip(row.notes, plan.notes)
    return (*spans, (" " * GAP, ""), *notes, (" " * (plan.notes - cells(notes)), ""))


def _style(row: IpcRow) -> str:
    """Red for trouble, yellow for what waits."""
    styles = {style for _, style in row.notes}
    return "bad" if row.suspect or "bad" in styles else "warn" if row.pressing else ""
