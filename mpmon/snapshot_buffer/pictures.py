"""Past pictures as bytes: each is stored as the difference from an earlier one.

They form trees of `TREE` pictures: the first is stored in full, each other one relative to the one whose position has one bit
less. So half of them are relative to their direct predecessor and nothing is relative to them, a quarter to the one two
before, and so on: every second one can be dropped, repeatedly. A picture is rebuilt from at most nine.

zlib alone would not find the repetition: its window is 32 KiB, and 64 processes take half a megabyte.  Whole pictures, packed
with the one before as dictionary or sixteen at a time, took seven times the memory and CPU.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from mpmon.codec import TABLES
from mpmon.diagnosis.findings import Event, Observation, TrendPoint
from mpmon.rows import shared
from mpmon.snapshot_buffer.blocks import Block
from mpmon.snapshot_buffer.differences import Places, less, whole
from mpmon.snapshot_buffer.logs import Log, Stretch

TREE = 256
"""A power of 2."""

OF_MOMENTS = tuple(name for name in TrendPoint.__struct_fields__ if name in TABLES)
"""Tables that a snapshot shares with the moment of its round, where they are stored."""

OTHERS = tuple(name for name in TABLES if name not in OF_MOMENTS)

SAID = ("findings", "remarks", "unchecked")
"""Tables of a diagnosis that are rebuilt in each round and are mostly equal."""

OF_DIAGNOSIS = ("processes", *SAID)


class _New(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture without its logs, or its difference."""

    picture: Observation
    of_moment: bool
    """Its moment has the tables `OF_MOMENTS`."""
    tables: dict[str, Places] = {}
    """Of its snapshot."""
    said: dict[str, Places] = {}
    """Of its diagnosis."""


class Page(msgspec.Struct, frozen=True, gc=False):
    """The difference of a picture from another one, or a full picture."""

    place: int
    """Of the picture."""
    block: Block
    row: int
    """Its place in the block."""
    base: Page | None

    @property
    def size(self) -> int:
        """Bytes it takes without its block."""
        return sys.getsizeof(self) + sys.getsizeof(self.row)


Part = Page | Block | Stretch


class Packed(msgspec.Struct, frozen=True, gc=False):
    """All stored data of a picture."""

    page: Page
    trend: Stretch
    events: Stretch

    @property
    def parts(self) -> Iterator[Part]:
        """Its parts, which it may share with others."""
        yield from (self.trend, *self.trend.blocks)
        yield from (self.events, *self.events.blocks)
        page: Page | None = self.page
        while page is not None:
            yield from (page, page.block)
            page = page.base


class Picture:
    """One picture, as an object or packed."""

    __slots__ = ("content", "number", "place", "since", "taken_at", "verdict")

    def __init__(self, place: int, observation: Observation) -> None:
        self.place = place
        """Counted from `TREE` on."""
        self.number = observation.number
        self.taken_at = observation.snapshot.taken_at
        self.verdict = observation.diagnosis.verdict
        self.since = observation.diagnosis.since
        self.content: Observation | Packed = observation

    @property
    def level(self) -> int:
        """Its distance from the end of its branch: 1 for every second one, 2 for every second one of the others."""
        return (self.place & -self.place).bit_length()

    @property
    def size(self) -> int:
        """Bytes it takes without its parts; 0 as long as it is not packed."""
        if not isinstance(self.content, Packed):
            return 0
        return sum(map(sys.getsizeof, (self, self.place, self.number, self.taken_at, self.since, self.content)))

    @property
    def parts(self) -> Iterator[Part]:
        """Its packed parts, which it may share with others."""
        return self.content.parts if isinstance(self.content, Packed) else iter(())


class Packer:
    """Packs pictures in the order in which they were made. One thread packs, any thread may read."""

    def __init__(self) -> None:
        self._trend = Log(TrendPoint)
        self._events = Log(Event)
        self._branch: list[tuple[Page, Observation]] = []
        """The last packed picture, before it the one that it is relative to, and so on."""
        self._made = 0

    def picture(self, observation: Observation) -> Picture:
        """Add a picture, unpacked."""
        self._made += 1
        return Picture(TREE - 1 + self._made, observation)

    def pack(self, pictures: Iterable[Picture]) -> int:
        """Pack all of these that are not packed yet; returns how many. Pictures that are dropped together are packed
        together.
        """
        blocks: defaultdict[int, Block] = defaultdict(Block)
        logs = self._trend.bytes + self._events.bytes
        made = 0
        for picture in pictures:
            if not isinstance(observation := picture.content, Packed):
                page = self._page(picture.place, observation, blocks[picture.level])
                trend, events = self._trend.take(observation.trend), self._events.take(observation.events)
                picture.content = Packed(page, trend, events)
                made += page.size + picture.size
        for block in blocks.values():
            block.pack()
            made += block.size
        return made + self._trend.bytes + self._events.bytes - logs

    def observation(self, picture: Picture) -> Observation:
        """What was packed, or is not yet."""
        content = picture.content
        if not isinstance(content, Packed):
            return content
        new, trend = _read(content.page), self._trend.rows(content.trend)
        told = {table: getattr(trend[-1], table) for table in OF_MOMENTS} if new.of_moment else {}
        snapshot = msgspec.structs.replace(new.picture.snapshot, **told)
        events = self._events.rows(content.events)
        return msgspec.structs.replace(new.picture, snapshot=snapshot, trend=trend, events=events)

    def _page(self, place: int, observation: Observation, block: Block) -> Page:
        while self._branch and not _is_above(self._branch[-1][0].place, place):
            self._branch.pop()
        base, known = self._branch[-1] if self._branch else (None, None)
        page = Page(place, block, block.add(_new(observation, known)), base)
        # Without its logs: future pictures are not stored relative to old moments.
        self._branch.append((page, msgspec.structs.replace(observation, trend=(), events=())))
        return page


def _is_above(place: int, later: int) -> bool:
    """The later one has more bits below the lowest one of this place, and no others."""
    return later - place < min(place & -place, TREE)


def _new(picture: Observation, base: Observation | None) -> _New:
    of_moment = _has_moment(picture)
    snapshot = msgspec.structs.replace(picture.snapshot, **dict.fromkeys(OF_MOMENTS, ()) if of_moment else {})
    diagnosis, tables, said = picture.diagnosis, dict[str, Places](), dict[str, Places]()
    if base is not None:
        snapshot, tables = less(snapshot, base.snapshot, OTHERS)
        same = {table: shared(getattr(diagnosis, table), getattr(base.diagnosis, table)) for table in SAID}
        diagnosis, said = less(msgspec.structs.replace(diagnosis, **same), base.diagnosis, OF_DIAGNOSIS)
    alone = msgspec.structs.replace(picture, snapshot=snapshot, diagnosis=diagnosis, trend=(), events=())
    return _New(alone, of_moment, tables, said)


def _has_moment(picture: Observation) -> bool:
    last = next(reversed(picture.trend), None)
    return last is not None and all(getattr(last, table) is getattr(picture.snapshot, table) for table in OF_MOMENTS)


def _read(page: Page) -> _New:
    """The content of a page and its predecessors."""
    new = page.block.row(page.row, _New)
    if page.base is None:
        return new
    base, picture = _read(page.base).picture, new.picture
    return msgspec.structs.replace(new, picture=msgspec.structs.replace(
        picture, snapshot=whole(picture.snapshot, base.snapshot, OTHERS, new.tables),
        diagnosis=whole(picture.diagnosis, base.diagnosis, OF_DIAGNOSIS, new.said),
    ))  # fmt: skip
