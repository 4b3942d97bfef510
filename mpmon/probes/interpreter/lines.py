"""The line of an instruction, from the line tables of code objects.

Python 3.10: Objects/lnotab_notes.txt (PEP 626); from 3.11 on: Objects/locations.md, then InternalDocs/code_objects.md (PEP 657).
A table that ends early, as an invalid one may, leaves the line unchanged.
"""

from __future__ import annotations

from itertools import islice

NO_LINE = 0x80
"""3.10: in place of a line difference."""

LONG, SHORT_LINE, ONE_LINE, SAME_LINE = 14, 13, 10, 9
"""Kinds of entries: all fields; no columns; a line 0 to 2 further on; the last kind that stays on the same line."""


def line_of_3_10(table: bytes, first: int, instruction: int) -> int:
    """The line of the instruction with this index; pairs of bytes are increments of instruction and line."""
    line, end = first, 0
    for length, step in zip(islice(table, 0, None, 2), islice(table, 1, None, 2), strict=False):
        if step != NO_LINE:
            line += step - 256 if step > NO_LINE else step
        end += length
        if end > 2 * instruction:
            break
    return line


def line_of(table: bytes, first: int, instruction: int) -> int:
    """The same from 3.11 on: the first byte of an entry has its kind and its number of instructions."""
    line, left, at, size = first, instruction, 0, len(table)
    while at < size:
        head = table[at]
        at += 1
        kind = head >> 3 & 15
        if kind <= SAME_LINE:
            at += 1
        elif kind < SHORT_LINE:
            line += kind - ONE_LINE
            at += 2
        elif kind <= LONG:
            step, at = _number(table, at)
            line += -(step >> 1) if step & 1 else step >> 1
            if kind == LONG:
                for _ in range(3):
                    _, at = _number(table, at)
        left -= (head & 7) + 1
        if left < 0:
            break
    return line


def _number(table: bytes, at: int) -> tuple[int, int]:
    """A number in six bits per byte, least significant first, and where it ends; bit 6 means that more follows."""
    number = shift = 0
    for byte in islice(table, at, at + 6):
        number |= (byte & 63) << shift
        shift += 6
        at += 1
        if not byte & 64:
            break
    return number, at
