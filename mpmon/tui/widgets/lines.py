"""The line widget every panel is made of: rows in, lines out, and only lines that changed are painted.

Textual's own table lays out and paints everything at each change, which costs ten times as much.
Here a row is any value that can be compared, and a line is made of it only when it is to be seen:
`show_rows` compares the new rows with those before and refreshes the regions of changed rows in view.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.binding import Binding
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView

from mpmon.tui.line import Line
from mpmon.tui.widgets.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

RowT = TypeVar("RowT")

_MISSING = object()


class Lines(ScrollView, Generic[RowT], can_focus=True, inherit_bindings=False):
    """Rows drawn one a line, with a heading that stays and, if wanted, a cursor.

    A subclass says how a row looks (`draw_row`) and, with a cursor, hears of its moves (`cursor_moved`).
    """

    HAS_CURSOR: ClassVar[bool] = False
    """With a cursor the arrow keys move it; without one they scroll."""

    CURSOR_WITHOUT_FOCUS: ClassVar[bool] = True
    """Whether the cursor is seen while the keys go elsewhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", show=False),
        Binding("down", "scroll_down", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("end", "scroll_end", show=False),
    ]

    DEFAULT_CSS = """
    Lines {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size: 0 0;
        width: 1fr;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[RowT, ...] = ()
        self._heading: tuple[Line, ...] = ()
        self._cursor = 0
        self._height_before = 0
        """How many rows fitted before the last change of size."""
        self._renderer: Renderer | None = None
        """How text looks here, until the size or the theme changes."""
        self._strips: dict[int, Strip] = {}
        """Drawn rows by index, until they change."""
        self._heading_strips: list[Strip] = []
        """Drawn lines of the heading, until one changes."""
        self.follows = False
        """The last row stays in view when others come, as long as the user does not scroll away from it."""
        self._at_end = True

    # Rows

    @property
    def rows(self) -> tuple[RowT, ...]:
        """What is shown now, in or out of view."""
        return self._rows

    def draw_row(self, row: RowT, width: int) -> Line:
        """The line of one row; asked for rows in view only."""
        raise NotImplementedError

    def show_rows(self, rows: Iterable[RowT]) -> None:
        """Shows other rows; what is equal to the row before in the same place is not painted again."""
        before, self._rows = self._rows, tuple(rows)
        changed = [
            index
            for index, (old, new) in enumerate(zip_longest(before, self._rows, fillvalue=_MISSING))
            if old is not new and old != new
        ]
        for index in changed:
            self._strips.pop(index, None)
        if len(before) != len(self._rows):
            self._fit_cursor()
            self.virtual_size = Size(0, len(self._heading) + len(self._rows))
        self._paint(changed)
        if self.follows and self._at_end:
            self.scroll_to(y=len(self._rows), animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls away from the last row, or back to it, says whether it is to be followed."""
        super().watch_scroll_y(old_value, new_value)
        self._at_end = new_value >= self.max_scroll_y

    def show_heading(self, *lines: Line) -> None:
        """Shows lines above the rows that do not scroll."""
        before, self._heading = self._heading, lines
        if before != lines:
            self._heading_strips.clear()
        if len(before) != len(lines):
            self.virtual_size = Size(0, len(lines) + len(self._rows))
            self.refresh()
        elif before != lines:
            self.refresh(Region(0, 0, self.size.width, len(lines)))

    def redraw(self) -> None:
        """Draws every row anew, after something changed that rows do not carry, such as the columns."""
        self._drop_strips()
        self.refresh()

    def redraw_row(self, index: int) -> None:
        """Draws one row anew."""
        self._strips.pop(index, None)
        self._paint((index,))

    def _paint(self, changed: Sequence[int]) -> None:
        """Refreshes the regions of rows in view, neighbours in one."""
        if not changed:
            return
        first = self.scroll_offset.y
        last = first + self.view_height
        top, width = len(self._heading) - first, self.size.width
        runs = _runs(index for index in changed if first <= index < last)
        if regions := [Region(0, top + index, width, count) for index, count in runs]:
            self.refresh(*regions)

    @property
    def view_height(self) -> int:
        """How many rows fit."""
        return max(0, self.size.height - len(self._heading))

    @property
    def view_range(self) -> tuple[int, int]:
        """First and last row in view, from 1; (0, 0) when there is none."""
        first = self.scroll_offset.y
        last = min(len(self._rows), first + self.view_height)
        return (first + 1, last) if last > first else (0, 0)

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """Textual asks for a part of the widget.

        Without borders and padding its lines are the strips kept here, and Textual's own store of lines would only
        look up the style of each line once more. Filters keep what they made of a strip with the strip.
        """
        width = self.size.width
        if self._renderer is not None and self._renderer.width != width:
            self._drop_strips()
        first = self.scroll_offset.y
        strips = [self._line(y, first) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            background = self.background_colors[1]
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _line(self, y: int, first: int) -> Strip:
        """Line `y` of the widget, scrolled to row `first`; drawn if it was not drawn before."""
        renderer = self._renderer
        if renderer is None:
            renderer = self._renderer = Renderer(self.rich_style, self.size.width)
        top = len(self._heading)
        if y < top:
            if not self._heading_strips:
                self._heading_strips = [renderer.row(line) for line in self._heading]
            return self._heading_strips[y]
        index = y - top + first
        strip = self._strips.get(index)
        if strip is None:
            if index >= len(self._rows):
                return renderer.blank
            line = self.draw_row(self._rows[index], renderer.width)
            at_cursor = index == self._cursor and self._shows_cursor
            strip = self._strips[index] = renderer.cursor(line) if at_cursor else renderer.row(line)
        return strip

    def _drop_strips(self) -> None:
        """Drops all that was drawn."""
        self._renderer = None
        self._strips.clear()
        self._heading_strips.clear()

    def notify_style_update(self) -> None:
        """Another theme: everything looks different."""
        self._drop_strips()
        super().notify_style_update()

    def on_resize(self, event: events.Resize) -> None:
        """Another size: everything is laid out anew, and a cursor that was in view stays so."""
        del event
        self._drop_strips()
        first, before = self.scroll_offset.y, self._height_before
        if self.HAS_CURSOR and (not before or first <= self._cursor < first + before):
            self._reveal_cursor()
        self._height_before = self.view_height
        self.resized()

    def resized(self) -> None:
        """For subclasses whose rows depend on the size."""

    # Cursor

    @property
    def cursor(self) -> int:
        """Index of the row the keys act on."""
        return self._cursor

    def move_cursor(self, index: int) -> None:
        """Puts the cursor on a row, and the row in view; tells nobody."""
        self._put_cursor(index)
        self._reveal_cursor()

    def keep_cursor(self, index: int) -> None:
        """Lets the cursor follow its row to another place.

        Scrolls only if the cursor was in view: the user may be looking elsewhere.
        """
        first = self.scroll_offset.y
        was_in_view = first <= self._cursor < first + self.view_height
        self._put_cursor(index)
        if was_in_view:
            self._reveal_cursor()

    @property
    def _shows_cursor(self) -> bool:
        return self.HAS_CURSOR and (self.CURSOR_WITHOUT_FOCUS or self.has_focus)

    def _put_cursor(self, index: int) -> None:
        before, self._cursor = self._cursor, max(0, min(index, len(self._rows) - 1))
        if before != self._cursor:
            for row in (before, self._cursor):
                self._strips.pop(row, None)
            self._paint(sorted((before, self._cursor)))

    def cursor_moved(self) -> None:
        """The user moved the cursor."""

    def _fit_cursor(self) -> None:
        if self._cursor >= len(self._rows):
            self._cursor = max(0, len(self._rows) - 1)
            self._strips.pop(self._cursor, None)

    def _reveal_cursor(self) -> None:
        first = self.scroll_offset.y
        if self._cursor < first:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= first + self.view_height > first:
            self.scroll_to(y=self._cursor - self.view_height + 1, animate=False)

    def _user_moves(self, index: int) -> None:
        self.move_cursor(index)
        self.cursor_moved()

    def action_scroll_up(self) -> None:
        """Up."""
        self._step(-1)

    def action_scroll_down(self) -> None:
        """Down."""
        self._step(1)

    def action_page_up(self) -> None:
        """A page up."""
        self._step(-max(1, self.view_height - 1))

    def action_page_down(self) -> None:
        """A page down."""
        self._step(max(1, self.view_height - 1))

    def action_scroll_home(self) -> None:
        """To the first row."""
        self._step(-len(self._rows))

    def action_scroll_end(self) -> None:
        """To the last row."""
        self._step(len(self._rows))

    def _step(self, rows: int) -> None:
        if self.HAS_CURSOR:
            self._user_moves(self._cursor + rows)
        else:
            self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on its row."""
        index = event.y - len(self._heading) + self.scroll_offset.y
        if self.HAS_CURSOR and event.y >= len(self._heading) and index < len(self._rows):
            self._user_moves(index)


class TextLines(Lines[Line]):
    """Rows that are lines already."""

    def draw_row(self, row: Line, width: int) -> Line:
        """The line as it is."""
        del width
        return row


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring numbers of an ascending row together: first number and how many."""
    start = end = -1
    for number in numbers:
        if number == end:
            end += 1
            continue
        if end > start:
            yield start, end - start
        start, end = number, number + 1
    if end > start:
        yield start, end - start
