"""What is only added to at its end, and of which each picture shows the last stretch: moments for histories, and events.

Many pictures show the same row, so each row is packed once, in a block with others; a block lives as long as some picture
shows one of its rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import Generic, TypeVar

import msgspec

from mpmon.codec import decode, encode
from mpmon.reel.blocks import Block
from mpmon.reel.differences import Places, less, whole

TOGETHER = 64
"""Rows that are packed together."""

R = TypeVar("R", bound=msgspec.Struct)


class _Line(msgspec.Struct, Generic[R], frozen=True, omit_defaults=True):
    """One row of a block."""

    row: R
    """With only what is new in its tables since the first row of the block."""
    places: dict[str, Places] = {}


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Where some neighbouring rows of a log are."""

    blocks: tuple[Block, ...]
    first: int
    """Place of the first one in these blocks."""
    count: int

    @property
    def size(self) -> int:
        """Bytes it takes without the blocks."""
        return sum(map(sys.getsizeof, (self, self.blocks, self.first, self.count)))


class Log(Generic[R]):
    """Rows of one kind, in the order in which they came."""

    def __init__(self, kind: type[R], tables: tuple[str, ...] = ()) -> None:
        """Rows that have `tables` share most of the rows in these."""
        self._line = _Line[kind]
        self._tables = tables
        self._blocks: list[Block] = []
        """The last ones."""
        self._base: R | None = None
        """The first row of the very last one, as long as that is not complete."""
        self._seen: tuple[R, ...] = ()
        self._stretch = Stretch((), 0, 0)
        self.bytes = 0
        """Of all blocks and stretches there ever were."""

    def take(self, rows: tuple[R, ...]) -> Stretch:
        """Add what is new at the end of these, which are the last rows of the log; and where they are."""
        if rows is not self._seen:
            for row in self._unseen(rows):
                self._add(row)
            self._seen, self._stretch = rows, self._last(len(rows))
            self.bytes += self._stretch.size
        return self._stretch

    def rows(self, stretch: Stretch) -> tuple[R, ...]:
        """Rows of the log made anew; asked by any thread."""
        rows = chain.from_iterable(map(self._unpacked, stretch.blocks))
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
        before = self._blocks[-1].size if self._base else 0
        if self._base is None:
            self._base = row
            self._blocks.append(Block())
            line = _Line(row)
        else:
            line = _Line(*less(row, self._base, self._tables))
        block = self._blocks[-1]
        block.add(encode(line))
        if block.count == TOGETHER:
            block.pack()
            self._base = None
        self.bytes += block.size - before

    def _last(self, count: int) -> Stretch:
        """The last so many rows. Blocks before them are let go."""
        have, needed = 0, 0
        while have < count:
            needed += 1
            have += self._blocks[-needed].count
        self._blocks = self._blocks[-max(needed, 1) :]
        return Stretch(tuple(self._blocks), have - count, count)

    def _unpacked(self, block: Block) -> Iterator[R]:
        base: R | None = None
        for line in block.lines():
            read = decode(line, self._line)
            base = read.row if base is None else base
            yield whole(read.row, base, self._tables, read.places)
