"""Rows packed together as bytes: similar rows compress well together, and faster.

The format is MessagePack instead of JSON: no other program reads it, it is shorter, and NaN is preserved.
"""

from __future__ import annotations

import sys
import zlib
from typing import TypeVar

import msgspec

LEVEL = 1
"""Of zlib: the fastest. The data is so repetitive that higher levels gain little."""

R = TypeVar("R", bound=msgspec.Struct)


class Block:
    """Some rows of one kind. One thread adds to it, any thread may read."""

    __slots__ = ("_packed", "_rows", "count", "size")

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        """The rows, until they are packed."""
        self._packed = b""
        self.count = 0
        self.size = sys.getsizeof(self)
        """Size in bytes, packed or not."""

    def add(self, row: msgspec.Struct) -> int:
        """Add a row; returns its position."""
        encoded = msgspec.msgpack.encode(row)
        self._rows.append(encoded)
        self.count += 1
        self.size += sys.getsizeof(encoded)
        return self.count - 1

    def pack(self) -> None:
        """Pack the rows; no more will be added."""
        self._packed = zlib.compress(msgspec.msgpack.encode(self._rows), LEVEL)
        self._rows = []
        self.size = sys.getsizeof(self) + sys.getsizeof(self._packed)

    def row(self, place: int, kind: type[R]) -> R:
        """The row at this position."""
        return msgspec.msgpack.decode(self._encoded()[place], type=kind)

    def rows(self, kind: type[R]) -> list[R]:
        """All that were added so far."""
        return [msgspec.msgpack.decode(row, type=kind) for row in self._encoded()]

    def _encoded(self) -> list[bytes]:
        # A thread that reads during packing finds them in one of the two places.
        return list(self._rows) or msgspec.msgpack.decode(zlib.decompress(self._packed), type=list[bytes])
