r"""Text of the watched job on its way to a terminal.

Names of processes, threads and files are arbitrary: escape codes, line breaks, bidirectional marks, bytes that are not text.
None of it may affect the user's terminal, and one line must stay one line. The terminal may also lack some characters: those
that mpmon draws with have ASCII replacements.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_PLAIN = re.compile("[^ -~]+")

ASCII = dict(zip("→←↑↓▶›–·…─│├└┌┐┘┤┬┴┼━╸┃▔▏▕▁▂▃▄▅▆▇█×°µ", "><^v>>--~-|+`++'++++==|-||_.:-=+*#xou", strict=True))
"""Characters that mpmon draws with, and their ASCII replacements of the same width."""


def written_out(text: str) -> str:
    r"""For text that may grow: what does not print as Python writes it, `\x1b`, `\n`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(glyph if glyph.isprintable() else glyph.encode("unicode_escape").decode("ascii") for glyph in text)


def in_bounds(text: str, most: int) -> str:
    """At most this many characters; a longer text keeps its beginning and its end."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def in_ascii(text: str) -> str:
    r"""For text that may grow: drawn with ASCII, and other glyphs as Python writes them, `\xe9`, `\u4e2d`."""
    if text.isascii():
        return text
    return "".join(ASCII.get(glyph, glyph) for glyph in text).encode("ascii", "backslashreplace").decode("ascii")


def command_line(words: Sequence[str]) -> str:
    """A command in one line: its program by name, without its folder."""
    return written_out(" ".join([words[0].rpartition("/")[2], *words[1:]])) if words else ""


def in_place(text: str) -> str:
    """For columns: each glyph that does not print is a dot."""
    return text if text.isprintable() else "".join(glyph if glyph.isprintable() else "·" for glyph in text)


def in_json(text: bytes) -> bytes:
    r"""For a line of JSON: what does not print in its strings as `\u009b` (RFC 8259, 7), so that they still say the same.

    JSON itself wants this of C0 only: DEL, C1, and marks that turn the writing or have no width may stand in it.
    """
    if text.isascii() and b"\x7f" not in text:
        return text
    return _NOT_PLAIN.sub(_escaped, text.decode()).encode()


def _escaped(run: re.Match[str]) -> str:
    return "".join(glyph if glyph.isprintable() else _in_units(glyph) for glyph in run[0])


def _in_units(glyph: str) -> str:
    r"""Above U+FFFF two of them: `\udb40\udc01`."""
    return "".join(rf"\u{unit}" for unit in glyph.encode("utf-16-be").hex(" ", 2).split())
