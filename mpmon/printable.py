"""Text of the watched job on its way to a terminal.

A process may call itself, its threads and its files anything: escape codes, line breaks, marks that turn the direction of
writing, bytes that are no text.  None of it may act on the terminal of whoever looks, and one line must stay one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def written_out(text: str) -> str:
    r"""For text that may grow: what does not print as Python writes it, `\x1b`, `\n`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(glyph if glyph.isprintable() else glyph.encode("unicode_escape").decode("ascii") for glyph in text)


def command_line(words: Sequence[str]) -> str:
    """A command in one line: its program by name, without its folder."""
    return written_out(" ".join([words[0].rpartition("/")[2], *words[1:]])) if words else ""


def in_place(text: str) -> str:
    """For columns: each glyph that does not print is a dot."""
    return text if text.isprintable() else "".join(glyph if glyph.isprintable() else "·" for glyph in text)
