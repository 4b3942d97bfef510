"""Lines of JSON that are packed together: what looks alike takes little room beside one another, and packs faster."""

from __future__ import annotations

import sys
import zlib

LEVEL = 1
"""Of zlib: the fastest. What is packed repeats itself so much that others gain little."""


class Block:
    """Some lines. One thread adds to it, any may read."""

    __slots__ = ("_lines", "_packed", "count", "size")

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        """Until they are packed."""
        self._packed = b""
        self.count = 0
        self.size = sys.getsizeof(self)
        """Bytes it takes, packed or not."""

    def add(self, line: bytes) -> int:
        """One more; its place."""
        self._lines.append(line)
        self.count += 1
        self.size += sys.getsizeof(line)
        return self.count - 1

    def pack(self) -> None:
        """No more will come."""
        self._packed = zlib.compress(b"\n".join(self._lines), LEVEL)
        self._lines = []
        self.size = sys.getsizeof(self) + sys.getsizeof(self._packed)

    def lines(self) -> list[bytes]:
        """All that were added so far."""
        # Whoever reads while they are packed finds them in one of the two places.
        return list(self._lines) or zlib.decompress(self._packed).split(b"\n")
