"""The processes of the job, as a tree of who works for whom or as a sorted list."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual.message import Message
from textual.reactive import var

from mpmon.tui import columns
from mpmon.tui.columns import Row, Sort
from mpmon.tui.line import Line
from mpmon.tui.order import Layout, with_ancestors
from mpmon.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpmon.tui.scene import Scene


class ProcessesPanel(Panel[Row]):
    """A cursor on one process; moving it posts `Moved`."""

    TITLE: ClassVar[str] = "processes"
    HAS_CURSOR: ClassVar[bool] = True

    selected: var[int | None] = var(None)
    """The process under the cursor."""

    note: var[str] = var("")
    """A word from above for the title, such as what is followed."""

    class Moved(Message):
        """The user put the cursor on a process."""

        def __init__(self, pid: int) -> None:
            super().__init__()
            self.pid = pid

    def __init__(self) -> None:
        super().__init__()
        self._layout = Layout()
        self._as_list = False
        self._sort = 0
        self._inverted = False
        self._folded: frozenset[int] = frozenset()
        self._filter = ""
        self._plan = columns.Plan((), 0, 0)
        self._made = columns.Rows()

    # What is shown

    def repaint(self) -> None:
        """Rows in order; those equal to before cost nothing."""
        if self.scene is None:
            return
        rows = self._list(self.scene) if self._as_list else self._tree(self.scene)
        self._plan_columns(self.scene, rows)
        self.show_rows(rows)
        self._show_note(self.scene)
        self.keep_cursor(self._selected_row())

    def draw_row(self, row: Row, width: int) -> Line:
        """One process."""
        del width
        return columns.line(row, self._plan)

    def _tree(self, scene: Scene) -> list[Row]:
        branches = self._layout.branches(scene.views, self._folded)
        if self._filter:
            kept = with_ancestors(self._matches(scene), scene.views)
            branches = tuple(b for b in branches if b.pid in kept)
        return self._made.of(scene, branches)

    def _list(self, scene: Scene) -> list[Row]:
        pids = self._matches(scene) if self._filter else list(scene.views)
        order = self._order(scene)
        key = cast("Callable[[Row], float]", order.key)
        rows = self._made.of(scene, ((pid, "", 0) for pid in pids))
        return sorted(rows, key=key, reverse=order.largest_first != self._inverted)

    def _order(self, scene: Scene) -> Sort:
        orders = columns.sorts(gpus=bool(scene.snapshot.gpus))
        return orders[self._sort % len(orders)]

    def _plan_columns(self, scene: Scene, rows: list[Row]) -> None:
        wanted = max((len(r.prefix) + cell_len(r.role) + 4 * bool(r.hidden) for r in rows), default=0)
        plan = columns.plan(self.size.width, wanted, gpus=bool(scene.snapshot.gpus))
        if plan != self._plan:
            self._plan = plan
            self.redraw()

    def _show_note(self, scene: Scene) -> None:
        parts = [str(len(self.rows))]
        if self._as_list:
            parts.append(f"by {self._order(scene).name}{', inverted' if self._inverted else ''}")
        if self._filter:
            parts.append(f"filter {self._filter}")
        if self.note:
            parts.append(self.note)
        self.titled(" · ".join(parts), columns.heading(self._plan))

    # Selection

    def watch_selected(self) -> None:
        """The selection was set from above."""
        self.move_cursor(self._selected_row())

    def watch_note(self) -> None:
        """Another word for the title."""
        if self.scene is not None:
            self._show_note(self.scene)

    def _selected_row(self) -> int:
        """Where the selected process is; where the cursor is already, when it is hidden."""
        return next((i for i, row in enumerate(self.rows) if row.pid == self.selected), self.cursor)

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
        if self.selected is not None:
            self._folded = self._folded | {self.selected} if folded else self._folded - {self.selected}
            self.repaint()

    def fold_all(self) -> None:
        """Unfolds everything, or, when nothing is folded, folds every branch but the roots."""
        if self.scene is None:
            return
        views = self.scene.views
        inner = {v.parent for v in views.values() if v.parent in views and views[v.parent].parent in views}
        self._folded = frozenset() if self._folded else frozenset(inner)
        self.repaint()


def _searched(scene: Scene, pid: int) -> str:
    """The text a filter looks in."""
    view, process = scene.views[pid], scene.processes.get(pid)
    command = " ".join(process.cmdline or ()) if process else ""
    return f"{view.role} {pid} {view.mood} {view.does} {command}".casefold()
