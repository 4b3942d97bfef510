"""Texts of the file: lines of the job's code, names of refcounters. Each is written once and referred to by its number."""

from __future__ import annotations

import os
import sys

from . import layout
from .writer import WRITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType

    Line = tuple[CodeType | None, int, int]

frame_of = sys._getframe  # pyright: ignore[reportPrivateUsage]

SITES: dict[tuple[int, int], int] = {}
"""Text of a place in the code, by the address of its code object and the offset of its instruction.

The code objects are kept alive, so that an address always means the same one.
"""

MOST_SITES = 1 << 12
"""Most places that are remembered, with or without text: a program may generate code at run time."""

_kept_code: dict[int, CodeType] = {}
_passed_over: set[int] = set()
_texts: dict[str, int] = {}


NO_LINE: Line = (None, 0, 0)


def line_of(frame: FrameType) -> Line:
    """Where a frame is: its code, its instruction and the text for it; `NO_LINE` when there is no text (yet)."""
    if id(frame.f_code) in _passed_over and frame.f_back is not None:
        frame = frame.f_back
    site = _site_of(frame)
    return (frame.f_code, frame.f_lasti, site) if site else NO_LINE


def site_of(frame: FrameType) -> int:
    """Number of the text for the line a frame is at, `job.py:16 in train_step`; 0 when there is no room for it."""
    return line_of(frame)[2]


def _site_of(frame: FrameType) -> int:
    code = frame.f_code
    key = (id(code), frame.f_lasti)
    known = SITES.get(key)
    if known is not None or len(SITES) >= MOST_SITES:
        return known or 0
    _kept_code[id(code)] = code
    function: str = getattr(code, "co_qualname", code.co_name)
    site = text(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {function}")
    # Without room, one attempt is enough; if another thread held the lock, the text is tried again.
    if site or WRITER.texts.is_full:
        SITES[key] = site
    return site


def pass_over(*codes: CodeType) -> None:
    """Skip these wrapper functions: the place is their caller."""
    _passed_over.update(map(id, codes))


def text(words: str) -> int:
    """Number of a text, which is written when it is new; 0 when there is no room for it."""
    known = _texts.get(words)
    if known is not None:
        return known
    number = WRITER.texts.take() if WRITER.ready() else None
    if number is None:
        return 0
    _write(number, words)
    _texts[words] = number
    return number


def forget_text(words: str) -> None:
    """Free a text that no record in the file refers to any more."""
    number = _texts.pop(words, None)
    if number is not None:
        WRITER.texts.give(number)


def forget_all() -> None:
    """In a forked child: its own file has no texts yet."""
    SITES.clear()
    _texts.clear()


os.register_at_fork(after_in_child=forget_all)


def _write(number: int, words: str) -> None:
    encoded = words.encode("utf-8", "replace")[-layout.TEXT_BYTES :]
    record = WRITER.texts.words(number)
    start = layout.TEXTS.start + number * layout.TEXTS.record_bytes + layout.WORD
    record[0] = 0
    WRITER.bytes[start : start + len(encoded)] = encoded
    record[0] = layout.text_seal(encoded)
    WRITER.texts.changed()
