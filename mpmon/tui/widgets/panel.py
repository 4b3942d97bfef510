"""A panel: a titled part of the screen that shows one thing of a `Scene`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.cells import cell_len
from textual.reactive import var

from mpmon.tui.line import Line, cells, clip, fit
from mpmon.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene

RowT = TypeVar("RowT")

TITLE_LINES = 1
"""Lines of a title without names of columns."""

LOW = 30
"""On a screen of fewer lines the names of columns may stand in the title."""


class Panel(Lines[RowT]):
    """Set `scene` and it repaints what changed.

    A subclass implements `repaint` and, if it has a title, calls `titled` from it.
    """

    TITLE: ClassVar[str] = ""
    """Name of the panel, unless it says another one with its note."""

    scene: var[Scene | None] = var(None)
    """What to show; `None` before the first look."""

    selected: var[int | None] = var(None)
    """The selected process."""

    _titles: tuple[str, str, tuple[Line, ...]] = ("", "", ())
    """Title, note beside it, and the lines under it that do not scroll."""

    def repaint(self) -> None:
        """Turns the scene into rows."""
        raise NotImplementedError

    def watch_scene(self) -> None:
        """Another scene came down."""
        if self.is_mounted:
            self.repaint()

    def set_absent(self, *, absent: bool) -> None:
        """Takes the panel off the screen while there is nothing it could show, or puts it back."""
        self.set_class(absent, "-absent")

    @property
    def absent(self) -> bool:
        """Whether it is off the screen."""
        return self.has_class("-absent")

    def resized(self) -> None:
        """Rows may depend on the size."""
        self.repaint()

    def titled(self, note: str, *columns: Line, title: str = "") -> None:
        """Says what is shown, beside the panel's name, and how many rows are out of view."""
        self._titles = (title or self.TITLE, note, columns)
        self._show_titles()

    def _show_titles(self) -> None:
        title, note, columns = self._titles
        if title:
            line = title_line(title, note, self._position(), self.size.width, focused=self.has_focus)
            self.show_heading(line, *columns)

    def _position(self) -> str:
        first, last = self.view_range
        count = len(self.rows)
        return f" {first}–{last} of {count} " if last - first + 1 < count else ""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The title tells how far it is scrolled."""
        super().watch_scroll_y(old_value, new_value)
        self._show_titles()

    def watch_has_focus(self, _has_focus: bool) -> None:  # noqa: FBT001  as Textual calls it
        """The title of the panel with the keys stands out."""
        super().watch_has_focus(_has_focus)
        self._show_titles()


class TextPanel(Panel[Line]):
    """A panel whose rows are lines already; they are cut at its edge."""

    def draw_row(self, row: Line, width: int) -> Line:
        """The line as it is."""
        del width
        return row


@lru_cache(maxsize=64)
def title_line(title: str, note: str, position: str, width: int, *, focused: bool) -> Line:
    """A rule across the panel with its name, a note, and at the right the position."""
    name = f" {title} "
    room = width - cell_len(name) - len(position) - 4
    left = clip((("──", "dim"), (name, "focus" if focused else "title"), (fit_note(note, room), "")), width)
    fill = max(0, width - cells(left) - len(position) - 2)
    return (*left, ("─" * fill, "dim"), (position, "dim"), ("──", "dim"))


def fit_note(note: str, room: int) -> str:
    """The note and a space after it, cut where it must be."""
    if not note or room < 4:
        return ""
    return fit(note, min(room - 1, cell_len(note))) + " "


def title_cells(title: str, count: str) -> int:
    """How many cells `title_over` leaves to the name of the panel."""
    return 2 + len(f" {title} ") + len(f"{count} ")


def title_over(names: str, title: str, count: str, position: str, width: int, *, focused: bool) -> Line:
    """A rule across the panel with its name, and the names of columns above these, so that they need no line of their own."""
    begun = title_cells(title, count)
    end = max(begun, width - len(position))
    said = re.sub(r" {3,}", lambda gap: f" {'─' * (len(gap[0]) - 2)} ", names.ljust(end)[begun:end])
    style = "focus" if focused else "title"
    return (("──", "dim"), (f" {title} ", style), (f"{count} ", ""), (said, "dim"), (position, "dim"))
