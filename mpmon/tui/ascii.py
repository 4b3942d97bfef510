"""The screen for terminals that know ASCII only: each glyph becomes one of the same width, after everything is drawn.

So nothing else has to ask which glyphs are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.filter import LineFilter

from mpmon.printable import ASCII

if TYPE_CHECKING:
    from textual.color import Color


class _Glyphs(dict[int, str]):
    """A translation table that learns what it is asked for."""

    def __missing__(self, code: int) -> str:
        glyph = chr(code)
        known = ASCII.get(glyph, "?" * cell_len(glyph))
        self[code] = glyph if code < 0x80 else known
        return self[code]


_GLYPHS = _Glyphs()


class AsciiFilter(LineFilter):
    """Textual runs every line through it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments in ASCII."""
        del background
        return [Segment(text.translate(_GLYPHS), style, control) for text, style, control in segments]
