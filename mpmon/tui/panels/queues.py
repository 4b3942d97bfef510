"""Queues, CUDA memory sent to other processes, and /dev/shm: what is in them, from whom to whom, and what is wrong.

A healthy job needs none of it, so the panel is there where there is room, where somebody goes to it, and where something in
it matters.  While it is not shown nothing is joined for it.
"""

from __future__ import annotations

from typing import ClassVar

from textual.message import Message

from mpmon.tui import format as fmt
from mpmon.tui.ipc_columns import Plan, heading, line, plan
from mpmon.tui.ipc_rows import IpcRow, ipc_rows, is_shared, may_press
from mpmon.tui.line import Line, plain
from mpmon.tui.widgets.panel import LOW, Panel, title_cells, title_over

GUESSED = 3
"""Rows a panel that was never shown may want."""


class QueuesPanel(Panel[IpcRow]):
    """A cursor on one of them; moving it posts `Moved`. Not there where nothing is shared."""

    TITLE: ClassVar[str] = "queues and IPC"
    HAS_CURSOR: ClassVar[bool] = True
    CURSOR_WITHOUT_FOCUS: ClassVar[bool] = False

    class Moved(Message):
        """The user put the cursor on something that a process of the job uses."""

        def __init__(self, pid: int) -> None:
            super().__init__()
            self.pid = pid

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
        self.titled(f"{fmt.plural(len(scene.ipc.queues), 'queue')} · all (i)", plain(heading(planned), "dim"))

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

    def _show_titles(self) -> None:
        """On a low screen the names of the columns stand in the title, in place of the note."""
        if self.app.size.height >= LOW:
            super()._show_titles()
            return
        count = str(len(self.rows))
        names = heading(self._plan, after=title_cells(self.TITLE, count) + 1)
        width = self.size.width
        self.show_heading(title_over(names, self.TITLE, count, self._position(), width, focused=self.has_focus))

    # Selection

    def cursor_moved(self) -> None:
        """Tells those above whom to look at."""
        pid = self.rows[self.cursor].pid if self.rows else None
        if pid is not None:
            self.post_message(self.Moved(pid))

    def watch_has_focus(self, _has_focus: bool) -> None:  # noqa: FBT001  as Textual calls it
        """The cursor is seen while the panel has the keys."""
        super().watch_has_focus(_has_focus)
        self.redraw_row(self.cursor)
