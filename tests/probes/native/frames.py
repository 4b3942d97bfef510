"""Frame information made by hand: an `.eh_frame` and its search table, at addresses of their own."""

from __future__ import annotations

import struct
from collections.abc import Sequence

TABLE, ENTRIES = 0x1000, 0x100000
PLAIN = b"\x0c\x07\x08\x90\x01"
"""How functions of x86-64 begin: the CFA is the stack pointer and 8, and the return address lies right below it."""


def unsigned(value: int) -> bytes:
    """ULEB128."""
    found = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        found.append(low | (0x80 if value else 0))
        if not value:
            return bytes(found)


def record(content: bytes) -> bytes:
    """A CIE or FDE with its length, filled up."""
    padded = content + bytes(-(len(content) + 4) % 8)
    return struct.pack("<I", len(padded)) + padded


def cie(
    beginning: bytes = PLAIN, *, letters: bytes = b"zR", data: bytes = b"\x1b", version: int = 1, ra: int = 16
) -> bytes:
    """A CIE; by default its pointers count from where they are (0x1b: pcrel, sdata4)."""
    head = struct.pack("<IB", 0, version) + letters + b"\0" + b"\x01\x78" + bytes([ra])
    return record(head + (unsigned(len(data)) + data if letters else b"") + beginning)


class Frames:
    """A file with frame information for some functions: (start, size, program)."""

    def __init__(self, functions: Sequence[tuple[int, int, bytes]], common: bytes | None = None) -> None:
        common = cie() if common is None else common
        entries, rows = bytearray(common), []
        for start, size, program in functions:
            at = len(entries)
            rows.append((start - TABLE, ENTRIES + at - TABLE))
            back, here = at + 4, ENTRIES + at + 8
            entries += record(struct.pack("<Iii", back, start - here, size) + b"\0" + program)
        head = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, ENTRIES - TABLE - 4, len(rows))
        self.table = bytearray(head + b"".join(struct.pack("<ii", *row) for row in sorted(rows)))
        self.entries = entries
        self.bytes = 0

    def view(self, address: int, size: int) -> bytes:
        """As `Library.view`."""
        for start, content in ((TABLE, self.table), (ENTRIES, self.entries)):
            if start <= address < start + len(content):
                found = bytes(content[address - start :][:size])
                self.bytes += len(found)
                return found
        return b""
