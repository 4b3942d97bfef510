"""The processes of the job, as a tree of who works for whom or as a sorted list."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual.message import Message
from textual.reactive import var

from mpmon.tui import columns
from mpmon.tui import format as fmt
from mpmon.tui.columns import HISTORY, Row, Sort
from mpmon.tui.folds import Folds
from mpmon.tui.line import Line
from mpmon.tui.order import Branch, Folding, Layout, below, with_ancestors
from mpmon.tui.tags import Tags
from mpmon.tui.trends import Trends, step_for
from mpmon.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from mpmon.tui.scene import Scene


VAST = 200
"""From this width of the screen on there are histories."""

HEADING = 2
"""Lines above the processes: the title, and the names of the columns."""


class ProcessesPanel(Panel[Row]):
    """A cursor on one process; moving it posts `Moved`."""

    TITLE: ClassVar[str] = "processes"
    HAS_CURSOR: ClassVar[bool] = True

    selected: var[int | None] = var(None)
    """The process under the cursor."""

    note: var[str] = var("")
    """A word from above for the title, such as what is followed."""

    most_lines: var[int] = var(0)
    """Lines the panel would be given if it wanted all; 0 while that is not known."""

    class Moved(Message):
        """The user put the cursor on a process."""

        def __init__(self, pid: int) -> None:
            super().__init__()
            self.pid = pid

    def __init__(self) -> None:
        super().__init__()
        self._layout = Layout()
        self._folds = Folds()
        self._tags = Tags()
        self._as_list = False
        self._sort = 0
        self._inverted = False
        self._filter = ""
        self._plan = columns.Plan((), 0, 0)
        self._made = columns.Rows()
        self._trends = Trends()

    # What is shown

    def repaint(self) -> None:
        """Rows in order; those equal to before cost nothing."""
        if self.scene is None:
            return
        rows = self._list(self.scene) if self._as_list else self._tree(self.scene)
        self._plan_columns(self.scene, rows)
        self.show_rows(self._with_histories(self.scene, rows))
        self._show_note(self.scene)
        self.keep_cursor(self._selected_row())

    def draw_row(self, row: Row, width: int) -> Line:
        """One process."""
        del width
        return columns.line(row, self._plan)

    def _tree(self, scene: Scene) -> list[Row]:
        if not self._filter:
            folding = self._folds.folding(scene, max(0, self.most_lines - HEADING))
            return self._made.of(scene, self._layout.branches(scene.views, folding), self._tags.pids(scene))
        kept = with_ancestors(self._matches(scene), scene.views)
        unfolded = self._layout.branches(scene.views, Folding())
        return self._made.of(scene, (b for b in unfolded if b.pid in kept), self._tags.pids(scene))

    def _list(self, scene: Scene) -> list[Row]:
        pids = self._matches(scene) if self._filter else list(scene.views)
        order = self._order(scene)
        key = cast("Callable[[Row], float]", order.key)
        rows = self._made.of(scene, (Branch(pid, "") for pid in pids), self._tags.pids(scene))
        return sorted(rows, key=key, reverse=order.largest_first != self._inverted)

    def _order(self, scene: Scene) -> Sort:
        orders = columns.sorts(gpus=bool(scene.snapshot.gpus))
        return orders[self._sort % len(orders)]

    def _plan_columns(self, scene: Scene, rows: list[Row]) -> None:
        wanted = max((len(r.prefix) + cell_len(r.role) + 4 * bool(r.hidden) for r in rows), default=0)
        vast = self.app.size.width >= VAST
        plan = columns.plan(self.size.width, wanted, gpus=bool(scene.snapshot.gpus), history=vast)
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
        folded = self._hides()
        parts = [f"{len(scene.views)} in {fmt.plural(len(self.rows), 'line')} (*)" if folded else str(len(self.rows))]
        if tagged := len(self._tags.pids(scene)):
            parts.append(f"{tagged} tagged")
        if self._as_list:
            parts.append(f"by {self._order(scene).name}{', inverted' if self._inverted else ''}")
        if self._filter:
            parts.append(f"filter {self._filter}")
        if self.note:
            parts.append(self.note)
        self.titled(" · ".join(parts), columns.heading(self._plan, fmt.span(self._trends.span_s)))

    # Selection

    def watch_selected(self) -> None:
        """The selection was set from above."""
        self.move_cursor(self._selected_row())

    def watch_most_lines(self) -> None:
        """There is more room, or less."""
        if self.is_mounted:
            self.call_later(self.repaint)

    def watch_note(self) -> None:
        """Another word for the title."""
        if self.scene is not None:
            self._show_note(self.scene)

    def _selected_row(self) -> int:
        """Where the selected process is, by itself or with others; where the cursor is already, when it is hidden."""
        at = (i for i, row in enumerate(self.rows) if row.pid == self.selected or self.selected in row.members)
        return next(at, self.cursor)

    def cursor_moved(self) -> None:
        """Tells those above which process it is now."""
        if self.rows:
            self.post_message(self.Moved(self.rows[self.cursor].pid))

    # Order and filter

    def switch(self) -> None:
        """From tree to list, and back."""
        self._as_list = not self._as_list
        self.repaint()

    def sort_by(self, columns_further: int) -> None:
        """Sorts by another column; in the tree this makes it a list."""
        if self._as_list:
            self._sort += columns_further
        self._as_list = True
        self.repaint()

    def on_click(self, event: events.Click) -> None:
        """A click on the name of a column sorts by it, a second one inverts; Textual calls the handler of `Lines` as well."""
        if event.y == HEADING - 1 and self.scene is not None:
            self._sort_like(self.scene, columns.column_at(self._plan, event.x))

    def _sort_like(self, scene: Scene, name: str | None) -> None:
        names = [order.name for order in columns.sorts(gpus=bool(scene.snapshot.gpus))]
        if name not in names:
            return
        before = self._sort % len(names) if self._as_list else None
        self._sort = names.index(name)
        self._inverted = before == self._sort and not self._inverted
        self._as_list = True
        self.repaint()

    def invert(self) -> None:
        """Turns the order of the list round."""
        self._inverted = not self._inverted
        self.repaint()

    @property
    def filter(self) -> str:
        """What a process must have in its role, pid, state, action or command to be shown."""
        return self._filter

    def set_filter(self, text: str) -> None:
        """Shows what matches, with its ancestors in the tree."""
        self._filter = text
        self.repaint()

    def next_match(self, step: int) -> None:
        """Puts the cursor on the next process that matches; they go round."""
        if self.scene is None or not self._filter:
            return
        matching = set(self._matches(self.scene))
        count = len(self.rows)
        for distance in range(1, count + 1):
            index = (self.cursor + step * distance) % count
            if self.rows[index].pid in matching:
                self.move_cursor(index)
                self.cursor_moved()
                return

    def _matches(self, scene: Scene) -> list[int]:
        wanted = self._filter.casefold()
        return [pid for pid in scene.views if wanted in _searched(scene, pid)]

    # Branches

    def fold(self, *, folded: bool) -> None:
        """Folds or unfolds the branch under the cursor."""
        if self.scene is not None and self.rows:
            row = self.rows[self.cursor]
            if folded:
                self._folds.collapse(row, self.scene)
            else:
                self._folds.expand(row)
            self.repaint()

    def fold_all(self) -> None:
        """Unfolds everything, or folds it."""
        self._folds.turn(hides=self._hides())
        self.repaint()

    def _hides(self) -> bool:
        return any(row.hidden or row.members for row in self.rows)

    # Tags

    def chosen(self) -> tuple[int, ...]:
        """The tagged processes, or else those on the line under the cursor."""
        if self.scene is None or not self.rows:
            return ()
        return self._tags.pids(self.scene) or self._at_cursor()

    def _at_cursor(self) -> tuple[int, ...]:
        row = self.rows[self.cursor]
        return row.members or (row.pid,)

    def tag(self) -> None:
        """Tags or untags the line under the cursor, and goes to the next."""
        if self.scene is not None and self.rows:
            self._tags.turn(self.scene, self._at_cursor())
            self.repaint()
            self.action_scroll_down()

    def tag_branch(self) -> str:
        """Tags it with everything below it; what to say of that."""
        if self.scene is None or not self.rows:
            return ""
        scene = self.scene
        pids = [pid for top in self._at_cursor() for pid in below(top, scene.views)]
        left_out = self._tags.add(scene, pids)
        self.repaint()
        count = f"{len(self._tags.pids(scene))} tagged"
        return f"{count}; not those who clean up after them ({left_out})" if left_out else count

    def untag(self) -> None:
        """Untags all."""
        self._tags.clear()
        self.repaint()


def _searched(scene: Scene, pid: int) -> str:
    """The text a filter looks in."""
    view, process = scene.views[pid], scene.processes.get(pid)
    command = " ".join(process.cmdline or ()) if process else ""
    return f"{view.role} {pid} {view.mood} {view.does} {command}".casefold()
