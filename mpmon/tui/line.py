"""Text as the screen knows it: a line is spans of text, each with a style word. Pure, no Textual.

Style words are looked up in `mpmon.tui.styles` when a line is drawn, so that what is said and how it looks stay apart.
"""

from __future__ import annotations

import textwrap
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from mpmon.printable import in_place

if TYPE_CHECKING:
    from collections.abc import Iterable

Span = tuple[str, str]
"""Text and its style word; the empty word is plain text."""

Line = tuple[Span, ...]

BLANK: Line = ()

_TEXT, _STYLE = itemgetter(0), itemgetter(1)


def plain(text: str, style: str = "") -> Line:
    """A line of one span."""
    return ((text, style),)


def text_of(line: Line) -> str:
    """The text without its styles."""
    return "".join(text for text, _ in line)


def harmless(line: Line) -> Line:
    """The line without anything that acts on a terminal."""
    return tuple((in_place(text), style) for text, style in line)


def text_of_lines(lines: Iterable[Line]) -> str:
    """The text of several, each ended and harmless."""
    return "".join(f"{text_of(harmless(line)).rstrip()}\n" for line in lines)


def cells(line: Line) -> int:
    """How many terminal cells the line takes; a wide character takes two."""
    return sum([_cells(text) for text, _ in line])


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(in_place(text))


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` cells: padded, or cut with an ellipsis."""
    text = in_place(text)
    size = _cells(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    padding = " " * (width - size)
    return padding + text if right else text + padding


def clip(line: Line, width: int) -> Line:
    """The line in at most `width` cells, an ellipsis where it was cut."""
    line = harmless(line)
    if cells(line) <= width:
        return line
    kept: list[Span] = []
    left = width
    for text, style in line:
        size = cell_len(text)
        if size >= left:
            kept.append((fit(text + " ", left) if size == left else fit(text, left), style))
            break
        kept.append((text, style))
        left -= size
    return tuple(kept)


def merged(line: Line) -> Line:
    """The line with neighbours of one style in one span: less to draw, and less to send."""
    return tuple(("".join(map(_TEXT, spans)), style) for style, spans in groupby(line, _STYLE))


def justify(left: Line, right: Line, width: int) -> Line:
    """Two lines in one: `right` at the right edge and whole, `left` cut where they would meet."""
    right = clip(right, width)
    room = width - cells(right)
    left = clip(left, max(0, room - 1))
    return (*left, (" " * (room - cells(left)), ""), *right)


def wrap(text: str, width: int, *, style: str = "", first: str = "", then: str = "") -> list[Line]:
    """The text broken at spaces, or inside a word longer than a line; `first` and `then` begin its lines."""
    return [plain(part, style) for part in _wrapped(text, max(width, 20), first, then)]


_SECOND_CELL = "\0"


@lru_cache(maxsize=512)
def _wrapped(text: str, width: int, first: str, then: str) -> tuple[str, ...]:
    """Most of what the screen says it has said a second ago."""
    parts = textwrap.wrap(_widened(text), width, initial_indent=first, subsequent_indent=then)
    return tuple(part.replace(_SECOND_CELL, "") for part in parts)


def _widened(text: str) -> str:
    """As many glyphs as cells, for one who counts glyphs."""
    if text.isascii():
        return text
    return "".join(glyph + _SECOND_CELL * (cell_len(glyph) - 1) for glyph in in_place(text))


def wrap_spans(spans: Iterable[Span], width: int, *, then: str = "  ") -> list[Line]:
    """Spans laid out in lines and broken only between spans."""
    lines: list[list[Span]] = [[]]
    used = 0
    for text, style in harmless(tuple(spans)):
        if lines[-1] and used + cell_len(text) > width:
            lines.append([(then, "")])
            used = len(then)
        lines[-1].append((text, style))
        used += cell_len(text)
    return [tuple(line) for line in lines if line]


def joined(spans: Iterable[Span]) -> Line:
    """Spans with points between them."""
    found = [part for span in spans for part in ((" · ", "dim"), span)]
    return tuple(found[1:])


def indented(texts: Iterable[str], width: int, *, style: str = "") -> list[Line]:
    """Texts below a line they belong to, each wrapped."""
    return [line for text in texts for line in wrap(text, width, style=style, first="    ", then="      ")]


def shorten(lines: list[Line], limit: int) -> list[Line]:
    """At most `limit` lines; a cut ends in an ellipsis."""
    if len(lines) <= limit:
        return lines
    kept = lines[:limit]
    kept[-1] = (*kept[-1], ("…", "dim"))
    return kept
