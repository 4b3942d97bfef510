"""Lines drawn as the strips that Textual shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from mpmon.tui.line import Line, cells, clip, merged, text_of
from mpmon.tui.styles import CURSOR, STYLES

if TYPE_CHECKING:
    from rich.style import Style


class Renderer:
    """Draws lines for one width, in styles on top of the widget's own."""

    def __init__(self, base: Style, width: int) -> None:
        self.width = width
        self.blank = Strip.blank(width, base)
        self._base = base
        self._styles: dict[str, Style] = {}

    def row(self, line: Line) -> Strip:
        """What Textual draws for a line."""
        line = clip(merged(line), self.width)
        return self._filled([Segment(text, self._style(word)) for text, word in line], cells(line), self._base)

    def cursor(self, line: Line) -> Strip:
        """The line under the cursor as one bar, in the style it ends with: a bar of patches would be hard to see."""
        style = self._style(line[-1][1] if line else "") + CURSOR
        line = clip(line, self.width)
        return self._filled([Segment(text_of(line), style)], cells(line), style)

    def _style(self, word: str) -> Style:
        """The style of a style word here."""
        style = self._styles.get(word)
        if style is None:
            style = self._styles[word] = self._base + STYLES[word]
        return style

    def _filled(self, segments: list[Segment], taken: int, style: Style) -> Strip:
        """A strip as wide as the widget, of segments that take so many cells."""
        if taken < self.width:
            segments.append(Segment(" " * (self.width - taken), style))
        return Strip(segments, self.width)
