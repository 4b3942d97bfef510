"""Queues, CUDA memory sent to other processes, and /dev/shm: what is in them, from whom to whom, and what is wrong.

A healthy job needs none of it, so the panel is there where there is room, where somebody goes to it, and where something in
it matters.  While it is not shown nothing is joined for it.
"""

from __future__ import annotations

from typing import ClassVar

from mpmon.tui import format as fmt
from mpmon.tui.line import Line
from mpmon.tui.tables.ipc_columns import Plan, line, plan
from mpmon.tui.tables.ipc_row import IpcRow
from mpmon.tui.tables.ipc_rows import ipc_rows, is_shared, may_press
from mpmon.tui.widgets.panel import LOW
from mpmon.tui.widgets.table import SmallTable

GUESSED = 3
"""Rows a panel that was never shown may want."""


class QueuesPanel(SmallTable[IpcRow]):
    """One row for each of them, which stands for a process that uses it. Not there where nothing is shared."""

    TITLE: ClassVar[str] = "queues and IPC"

    def __init__(self) -> None:
        super().__init__()
        self.wanted = 0
        """Lines it would like to have."""
        self.pressing = 0
        """Lines for what a person should look at."""
        self._plan = Plan()
        self.set_absent(absent=True)

    # What is shown

    def repaint(self) -> None:
        """One row each; those equal to before cost nothing."""
        scene = self.scene
        if scene is None:
            return
        self.set_absent(absent=not is_shared(scene))
        if self.absent or not (self.size.height or may_press(scene)):
            self._want(0 if self.absent else GUESSED, 0)
            self.show_rows(())
            return
        rows = ipc_rows(scene, folded=not self.has_class("-chosen"))
        planned = plan(self.size.width, rows)
        if planned != self._plan:
            self._plan = planned
            self.redraw()
        self._want(len(rows), sum(row.pressing for row in rows))
        at = self._cursor_among(rows)
        self.show_rows(rows)
        self.keep_cursor(at)
        self.noted(f"{fmt.plural(len(scene.ipc.queues), 'queue')} · all (i)")

    def draw_row(self, row: IpcRow, width: int) -> Line:
        """One of them."""
        del width
        return line(row, self._plan)

    def _want(self, rows: int, pressing: int) -> None:
        """Says how many lines these rows need; another number shares the screen anew."""
        titles = 1 if self.app.size.height < LOW else 2
        wants = tuple(count + titles if count else 0 for count in (rows, pressing))
        if wants != (self.wanted, self.pressing):
            self.wanted, self.pressing = wants
            self.refresh(layout=True)

    def _cursor_among(self, rows: list[IpcRow]) -> int:
        """Where the row under the cursor went."""
        what = self.rows[self.cursor].what if self.rows else ""
        return next((index for index, row in enumerate(rows) if row.what == what), self.cursor)

    def names(self) -> list[tuple[str, int, bool]]:
        """The columns that fit."""
        return self._plan.names
