"""Append-only logs of which each picture shows the last stretch: moments for histories, and events.

Many pictures show the same row, so each row is packed once, in a block with others; a block is kept for as long as a picture
shows one of its rows.
"""

from __future__ import annotations

import sys
from itertools import chain, islice
from typing import Generic, TypeVar

import msgspec

from mpmon.snapshot_buffer.blocks import Block

TOGETHER = 64
"""Rows that are packed together."""

R = TypeVar("R", bound=msgspec.Struct)


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """The location of some adjacent rows of a log."""

    blocks: tuple[Block, ...]
    first: int
    """Position of the first one in these blocks."""
    count: int

    @property
    def size(self) -> int:
        """Size in bytes, without the blocks."""
        return sum(map(sys.getsizeof, (self, self.blocks, self.first, self.count)))


class Log(Generic[R]):
    """Rows of one kind, in the order in which they came."""

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind
        self._blocks: list[Block] = []
        """The last blocks; the very last one accepts more rows unless it is full."""
        self._seen: tuple[R, ...] = ()
        self._stretch = Stretch((), 0, 0)
        self.bytes = 0
        """Total size of all blocks and stretches ever made."""

    def take(self, rows: tuple[R, ...]) -> Stretch:
        """Append what is new at the end of these rows, which are the last ones of the log; returns their location."""
        if rows is not self._seen:
            for row in self._unseen(rows):
                self._add(row)
            self._seen, self._stretch = rows, self._last(len(rows))
            self.bytes += self._stretch.size
        return self._stretch

    def rows(self, stretch: Stretch) -> tuple[R, ...]:
        """Rebuild rows of the log; may be called from any thread."""
        rows = chain.from_iterable(block.rows(self._kind) for block in stretch.blocks)
        return tuple(islice(rows, stretch.first, stretch.first + stretch.count))

    def _unseen(self, rows: tuple[R, ...]) -> list[R]:
        last = self._seen[-1] if self._seen else None
        new: list[R] = []
        for row in reversed(rows):
            if row is last:
                break
            new.append(row)
        return new[::-1]

    def _add(self, row: R) -> None:
        if not self._blocks or self._blocks[-1].count == TOGETHER:
            self._blocks.append(Block())
        block = self._blocks[-1]
        before = block.size if block.count else 0
        block.add(row)
        if block.count == TOGETHER:
            block.pack()
        self.bytes += block.size - before

    def _last(self, count: int) -> Stretch:
        """The last `count` rows. Blocks before them are released."""
        have, needed = 0, 0
        while have < count:
            needed += 1
            have += self._blocks[-needed].count
        self._blocks = self._blocks[-max(needed, 1) :]
        return Stretch(tuple(self._blocks), have - count, count)
