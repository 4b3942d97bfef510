"""The processes of the job, as a tree of who works for whom or as a sorted list."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.reactive import var

from mpmon.tui import format as fmt
from mpmon.tui.line import Line
from mpmon.tui.tables import process_columns as columns
from mpmon.tui.tables.host_rows import first_of
from mpmon.tui.tables.process_columns import HISTORY
from mpmon.tui.tables.process_list import ProcessList, hides
from mpmon.tui.tables.process_rows import Row
from mpmon.tui.tables.rank_classes import is_class
from mpmon.tui.tables.tree import below
from mpmon.tui.trends import Trends, step_for
from mpmon.tui.widgets.table import Table

if TYPE_CHECKING:
    from textual import events

    from mpmon.tui.scene import Scene


VAST = 200
"""From this width of the screen on there are histories."""

HEADING = 2
"""Lines above the processes: the title, and the names of the columns."""


class ProcessesPanel(Table[Row]):
    """A row for each process, or for several that share a line."""

    TITLE: ClassVar[str] = "processes"

    note: var[str] = var("")
    """A word from above for the title, such as what is followed."""

    most_lines: var[int] = var(0)
    """Lines the panel would be given if it wanted all; 0 while that is not known."""

    def __init__(self) -> None:
        super().__init__()
        self._list = ProcessList()
        self._plan = columns.Plan((), 0, 0)
        self._trends = Trends()

    # What is shown

    def repaint(self) -> None:
        """Rows in order; those equal to before cost nothing."""
        if self.scene is None:
            return
        rows = self._list.rows(self.scene, max(0, self.most_lines - HEADING))
        self._plan_columns(self.scene, rows)
        self.show_rows(self._with_histories(self.scene, rows))
        self._show_note(self.scene)
        self.keep_cursor(self._selected_row())

    def draw_row(self, row: Row, width: int) -> Line:
        """One process."""
        del width
        return columns.line(row, self._plan)

    def _plan_columns(self, scene: Scene, rows: list[Row]) -> None:
        wanted = max((len(r.prefix) + cell_len(r.role) + 4 * bool(r.hidden) for r in rows), default=0)
        plan = columns.plan(
            self.size.width,
            wanted,
            gpus=bool(scene.snapshot.gpus),
            hosts=bool(scene.hosts) and not self.host,
            history=self.app.size.width >= VAST,
            ranges=any(row.members or row.gpu_sm_least != row.gpu_sm for row in rows),
        )
        if plan != self._plan:
            self._plan = plan
            self.redraw()

    def _with_histories(self, scene: Scene, rows: list[Row]) -> list[Row]:
        if HISTORY not in self._plan.columns:
            return rows
        trend = scene.observation.trend
        self._trends.take(trend, step_for(trend, HISTORY.width), HISTORY.width)
        known = ((row, None if row.members else scene.processes.get(row.pid)) for row in rows)
        return [row._replace(history=self._trends.cpu(process)) if process else row for row, process in known]

    def _show_note(self, scene: Scene) -> None:
        said = " · ".join(filter(None, (self._list.note(scene, self.rows), self.note)))
        self.titled(said, columns.heading(self._plan, fmt.span(self._trends.span_s)))

    def watch_most_lines(self) -> None:
        """There is more room, or less."""
        if self.is_mounted:
            self.call_later(self.repaint)

    def watch_note(self) -> None:
        """Another word for the title."""
        if self.scene is not None:
            self._show_note(self.scene)

    # Selection

    def watch_selected(self) -> None:
        """The selection was set from above."""
        self.move_cursor(self._selected_row())

    def _selected_row(self) -> int:
        """Where the selected process is, by itself or with others; where the cursor is already, when it is hidden."""
        if self.is_on_class:
            return self.cursor
        at = (i for i, row in enumerate(self.rows) if row.pid == self.selected or self.selected in row.members)
        return next(at, self.cursor)

    def _at_cursor(self) -> tuple[int, ...]:
        """The processes on the line under the cursor."""
        row = self.rows[self.cursor]
        return () if is_class(row) else row.members or (row.pid,)

    def cursor_moved(self) -> None:
        """A class of ranks of which none is at hand has no process to select."""
        if not self.is_on_class:
            super().cursor_moved()

    @property
    def is_on_class(self) -> bool:
        """The cursor is on ranks of which none is at hand."""
        return self.cursor < len(self.rows) and is_class(self.rows[self.cursor])

    def hosts_of_class(self) -> list[str]:
        """Where the ranks under the cursor run; where there are none to be seen of the machine that was entered, that one."""
        if self.scene is None or not self.is_on_class:
            return []
        rows = self.scene.snapshot.elsewhere
        at = -self.rows[self.cursor].pid - 1
        return [self.host] if self.host or at >= len(rows) else first_of(self.scene, rows[at])

    # Machines

    @property
    def host(self) -> str:
        """The machine whose processes are listed; empty for all."""
        return self._list.host

    def enter(self, host: str) -> None:
        """Lists the processes of that machine alone, or of all again."""
        self._list.host = host
        self.move_cursor(0)
        self.repaint()

    # Order

    def switch(self) -> None:
        """From tree to list, and back."""
        self._list.switch()
        self.repaint()

    def sort_by(self, columns_further: int) -> None:
        """Sorts by another column; in the tree this makes it a list."""
        self._list.sort_by(columns_further)
        self.repaint()

    def on_click(self, event: events.Click) -> None:
        """A click on the name of a column sorts by it, a second one inverts; Textual calls the handler of `Lines` as well."""
        name = columns.column_at(self._plan, event.x) if event.y == HEADING - 1 else None
        if name is not None and self.scene is not None:
            self._list.sort_by_name(self.scene, name)
            self.repaint()

    def invert(self) -> None:
        """Turns the order of the list round."""
        self._list.invert()
        self.repaint()

    # Filter

    @property
    def filter(self) -> str:
        """What a process must have in its role, pid, state, action or command to be shown."""
        return self._list.filter

    def set_filter(self, text: str) -> None:
        """Shows what matches, with its ancestors in the tree."""
        self._list.filter = text
        self.repaint()

    def matching(self) -> list[int]:
        """The processes that match; none without a filter."""
        return self._list.matches(self.scene) if self.scene is not None and self.filter else []

    def narrowed(self, scene: Scene) -> list[int]:
        """The processes that are listed although a host or a filter hides others, those that match first; empty where neither
        does.
        """
        return self._list.in_sight(scene) if self.filter or self.host else []

    def next_match(self, step: int) -> None:
        """Puts the cursor on the next process that matches; they go round."""
        matching = set(self.matching())
        count = len(self.rows)
        for distance in range(1, count + 1):
            index = (self.cursor + step * distance) % count
            if self.rows[index].pid in matching:
                self.move_cursor(index)
                self.cursor_moved()
                return

    # Branches

    def fold(self, *, folded: bool) -> None:
        """Folds or unfolds the branch under the cursor."""
        if self.scene is not None and self.rows:
            row = self.rows[self.cursor]
            if folded:
                self._list.folds.collapse(row, self.scene)
            else:
                self._list.folds.expand(row)
            self.repaint()

    def fold_all(self) -> None:
        """Unfolds everything, or folds it."""
        self._list.folds.turn(hides=hides(self.rows))
        self.repaint()

    # Tags

    def chosen(self) -> tuple[int, ...]:
        """The tagged processes, or else those on the line under the cursor."""
        if self.scene is None or not self.rows:
            return ()
        return self._list.tags.pids(self.scene) or self._at_cursor()

    def tag(self) -> None:
        """Tags or untags the line under the cursor, and goes to the next."""
        if self.scene is not None and self.rows:
            self._list.tags.turn(self.scene, self._at_cursor())
            self.repaint()
            self.action_scroll_down()

    def tag_branch(self) -> str:
        """Tags it with everything below it; what to say of that."""
        if self.scene is None or not self.rows:
            return ""
        scene, tags = self.scene, self._list.tags
        left_out = tags.add(scene, [pid for top in self._at_cursor() for pid in below(top, scene.views)])
        self.repaint()
        count = f"{len(tags.pids(scene))} tagged"
        return f"{count}; without those that clean up after them ({left_out})" if left_out else count

    def untag(self) -> None:
        """Untags all."""
        self._list.tags.clear()
        self.repaint()
