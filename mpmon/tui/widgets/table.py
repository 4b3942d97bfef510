"""Panels with columns, whose rows stand for processes: who moves the cursor selects one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from mpmon.tui.line import plain
from mpmon.tui.messages import Selected
from mpmon.tui.tables.heading import heading
from mpmon.tui.widgets.panel import LOW, Panel, title_cells, title_over

if TYPE_CHECKING:
    from collections.abc import Sequence


class OfProcess(Protocol):
    """A row that may stand for a process."""

    @property
    def pid(self) -> int | None:
        """The process to select; `None` where it stands for none."""
        ...


RowT = TypeVar("RowT", bound=OfProcess)


class Table(Panel[RowT]):
    """A cursor on one row; moving it posts `Selected` with the process of that row."""

    HAS_CURSOR: ClassVar[bool] = True

    def cursor_moved(self) -> None:
        """Tells those above which process it is now."""
        pid = self.rows[self.cursor].pid if self.rows else None
        if pid is not None:
            self.post_message(Selected(pid))


class SmallTable(Table[RowT]):
    """Has its cursor only with the keys, and on a low screen the names of its columns in the title."""

    CURSOR_WITHOUT_FOCUS: ClassVar[bool] = False

    def names(self) -> Sequence[tuple[str, int, bool]]:
        """Name, width and side of each column."""
        raise NotImplementedError

    def count(self) -> int:
        """How many things it lists."""
        return len(self.rows)

    def noted(self, note: str) -> None:
        """The title, with a note where there is room for one, above the names of the columns."""
        self.titled(note, plain(heading(tuple(self.names())), "dim"))

    def _show_titles(self) -> None:
        """On a low screen the names of the columns stand in the title, in place of the note."""
        if self.scene is None or self.app.size.height >= LOW:
            super()._show_titles()
            return
        count = str(self.count())
        names = heading(tuple(self.names()), after=title_cells(self.TITLE, count) + 1)
        width = self.size.width
        self.show_heading(title_over(names, self.TITLE, count, self._position(), width, focused=self.has_focus))

    def watch_has_focus(self, _has_focus: bool) -> None:  # noqa: FBT001  as Textual calls it
        """The cursor is seen while the panel has the keys."""
        super().watch_has_focus(_has_focus)
        self.redraw_row(self.cursor)
