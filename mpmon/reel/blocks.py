"""Rows as bytes that are packed together: what looks alike takes little room beside one another, and packs faster.

They are MessagePack and not JSON: nobody else reads them, it is shorter, and a float that is no number stays what it is.
"""

from __future__ import annotations

import sys
import zlib
from typing import TypeVar

import msgspec

LEVEL = 1
"""Of zlib: the fastest. What is packed repeats itself so much that others gain little."""

R = TypeVar("R", bound=msgspec.Struct)


class Block:
    """Some rows of one kind. One thread adds to it, any may read."""

    __slots__ = ("_packed", "_rows", "count", "size")

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        """Until they are packed."""
        self._packed = b""
        self.count = 0
        self.size = sys.getsizeof(self)
        """Bytes it takes, packed or not."""

    def add(self, row: msgspec.Struct) -> int:
        """One more; its place."""
        encoded = msgspec.msgpack.encode(row)
        self._rows.append(encoded)
        self.count += 1
        self.size += sys.getsizeof(encoded)
        return self.count - 1

    def pack(self) -> None:
        """No more will come."""
        self._packed = zlib.compress(msgspec.msgpack.encode(self._rows), LEVEL)
        self._rows = []
        self.size = sys.getsizeof(self) + sys.getsizeof(self._packed)

    def row(self, place: int, kind: type[R]) -> R:
        """The one that was added in this place."""
        return msgspec.msgpack.decode(self._encoded()[place], type=kind)

    def rows(self, kind: type[R]) -> list[R]:
        """All that were added so far."""
        return [msgspec.msgpack.decode(row, type=kind) for row in self._encoded()]

    def _encoded(self) -> list[bytes]:
        # Whoever reads while they are packed finds them in one of the two places.
        return list(self._rows) or msgspec.msgpack.decode(zlib.decompress(self._packed), type=list[bytes])
