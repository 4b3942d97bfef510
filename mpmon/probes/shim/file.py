"""One file of the shim, from bytes to rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from mpmon.model import ExportRecord, ImportRecord, QueueRecord
from mpmon.probes.door import FILE, Place, take
from mpmon.shim import layout
from mpmon.shim.layout import Region
from mpmon.shim.places import Name

Kept = TypeVar("Kept", QueueRecord, ExportRecord, ImportRecord)

HEADER_BYTES = layout.HEADER_WORDS * layout.WORD


class BadFile(ValueError):
    """Not a file of the shim, or of another version."""


class Owner(NamedTuple):
    """The process that owns a file, as mpmon knows it, and how to convert its times."""

    pid: int
    users: tuple[int, ...]
    """Users who may have written it, besides root."""
    clock_zero: float
    """When CLOCK_MONOTONIC was 0, seconds since the epoch."""

    def moment(self, word: int) -> float | None:
        """Seconds since the epoch; `None` for an event that has not happened."""
        return round(self.clock_zero + (word & layout.MOMENT_BITS) / 1e9, 6) if word else None


class ShimFile:
    """Reads a file repeatedly; rows that did not change are the very same objects."""

    def __init__(self, place: Place, name: Name, owner: Owner) -> None:
        self.place = place
        self.name = name
        self.owner = owner
        self.bytes_read = 0
        """By the last call of `read`."""
        self.dropped = 0
        self.collected_at: float | None = None
        self.received = 0
        self.usable = False
        """It was read and is valid."""
        self._descriptor: int | None = None
        self.forget()

    @property
    def key(self) -> tuple[int, int]:
        """The process it belongs to: pid in its own namespace, start in clock ticks."""
        return self.name.pid, self.name.start_ticks

    @property
    def queues(self) -> tuple[QueueRecord, ...]:
        """What the process did with queues."""
        return self._queues.rows

    @property
    def exports(self) -> tuple[ExportRecord, ...]:
        """What it sent."""
        return self._exports.rows

    @property
    def imports(self) -> tuple[ImportRecord, ...]:
        """What it received."""
        return self._imports.rows

    def read(self) -> None:
        """Bring the rows up to date.

        Raises:
            OSError: as `mpmon.probes.door.opened`, and pread(2).
            BadFile: it is not the file of that process.
        """
        self.bytes_read = 0
        descriptor = self._open()
        header = self._header(descriptor)
        if header[0] == 0:
            # It is being made.
            return
        self._check(header)
        self.usable = True
        self.dropped = header[layout.DROPPED]
        self.collected_at = self.owner.moment(header[layout.COLLECTED_AT])
        self.received = layout.written(header[layout.IMPORTS.generation_at])
        if self._texts.is_new(header):
            self._texts.update(header, self._region(descriptor, layout.TEXTS, header))
        self._queues.update(self._region(descriptor, layout.QUEUES, header))
        for table, region in ((self._exports, layout.EXPORTS), (self._imports, layout.IMPORTS)):
            if table.generation != header[region.generation_at] or table.incomplete:
                table.generation = header[region.generation_at]
                table.update(self._region(descriptor, region, header))

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def forget(self) -> None:
        """Drop all rows: what was read before is no longer valid."""
        self.usable = False
        self._texts = Texts()
        self._queues = Table(layout.QUEUES, layout.QUEUE_SEAL, self._texts, self._queue)
        self._exports = Table(layout.EXPORTS, layout.TRANSFER_SEAL, self._texts, self._export)
        self._imports = Table(layout.IMPORTS, layout.TRANSFER_SEAL, self._texts, self._import)

    def _open(self) -> int:
        if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:
            # The process has executed another program and writes a new file (execve(2)), or the file was removed.
            self.close()
            self.forget()
        if self._descriptor is None:
            self._descriptor = take(self.place, FILE.by(*self.owner.users))
        return self._descriptor

    def _header(self, descriptor: int) -> memoryview:
        content = os.pread(descriptor, HEADER_BYTES, 0)
        self.bytes_read += len(content)
        if len(content) < HEADER_BYTES:
            raise BadFile("it is cut")
        return memoryview(content).cast("Q")

    def _check(self, words: memoryview) -> None:
        if words[0] != layout.MAGIC:
            raise BadFile("it is of another version of the shim")
        if layout.seal(words[1 : layout.IDENTITY_SEAL]) != words[layout.IDENTITY_SEAL]:
            raise BadFile("its header is damaged")
        if (words[layout.PID], words[layout.START_TICKS]) != (self.name.pid, self.name.start_ticks):
            raise BadFile("it belongs to a different process than its name says")

    def _region(self, descriptor: int, region: Region, header: memoryview) -> bytes:
        used = min(header[region.used_at], region.most)
        content = os.pread(descriptor, used * region.record_bytes, region.start)
        self.bytes_read += len(content)
        return content

    def _queue(self, words: memoryview) -> QueueRecord | None:
        inode, made = words[layout.INODE], words[layout.MADE]
        if layout.seal((inode, made)) != words[layout.QUEUE_SEAL]:
            return None
        kind, made_at, capacity = layout.unmade(made)
        put, get = words[layout.PUT], words[layout.GET]
        lost, lost_site = layout.unlost(words[layout.LOST])
        return QueueRecord(
            pid=self.owner.pid, object=f"pipe:{inode}", capacity=capacity or None, made_at=self._texts.find(made_at),
            kind=layout.KINDS[kind] if kind < len(layout.KINDS) else layout.KINDS[0],
            puts=words[layout.PUTS], put_at=self.owner.moment(put), put_site=self._texts.find(put & layout.TEXT_BITS),
            putting=words[layout.PUTS_BEGUN] > words[layout.PUTS] + words[layout.PUTS_FAILED],
            gets=words[layout.GETS], get_at=self.owner.moment(get), get_site=self._texts.find(get & layout.TEXT_BITS),
            getting=words[layout.GETS_BEGUN] > words[layout.GETS] + words[layout.GETS_FAILED],
            sent=words[layout.SENT], sent_bytes=words[layout.SENT_BYTES],
            received_bytes=words[layout.RECEIVED_BYTES], lost=lost,
            lost_site=self._texts.find(lost_site), descriptors=words[layout.DESCRIPTORS],
        )  # fmt: skip

    def _export(self, words: memoryview) -> ExportRecord | None:
        if layout.seal(words[: layout.TRANSFER_SEAL]) != words[layout.TRANSFER_SEAL]:
            return None
        size, device, flags = layout.unwhat(words[layout.WHAT])
        inode, slot, file = layout.unwhich(words[layout.WHICH])
        at = words[layout.AT]
        return ExportRecord(
            pid=self.owner.pid, file=self._texts.find(file) or "", slot=slot, size_bytes=size, device=device,
            sent_at=self.owner.moment(at) or 0.0, object=f"pipe:{inode}" if inode else None,
            site=self._texts.find(at & layout.TEXT_BITS), dropped_at=self.owner.moment(words[layout.GONE_AT]),
            synced=bool(flags & layout.SYNCED),
        )  # fmt: skip

    def _import(self, words: memoryview) -> ImportRecord | None:
        if layout.seal(words[: layout.TRANSFER_SEAL]) != words[layout.TRANSFER_SEAL]:
            return None
        _, _, flags = layout.unwhat(words[layout.WHAT])
        inode, slot, file = layout.unwhich(words[layout.WHICH])
        return ImportRecord(
            pid=self.owner.pid, file=self._texts.find(file) or "", slot=slot,
            received_at=self.owner.moment(words[layout.AT]) or 0.0, again=bool(flags & layout.AGAIN),
            object=f"pipe:{inode}" if inode else None,
        )  # fmt: skip


class Texts:
    """Lines of code and names of files, by number."""

    def __init__(self) -> None:
        self.missed = False
        """A text was requested that was written after the last update."""
        self._texts: list[str | None] = []
        self._generation: int | None = None

    def find(self, number: int) -> str | None:
        """The text; `None` for number 0, and for a text that is not there yet."""
        text = self._texts[number] if number < len(self._texts) else None
        self.missed |= text is None and number != 0
        return text

    def is_new(self, header: memoryview) -> bool:
        """Whether any changed since the last update."""
        return header[layout.TEXTS.generation_at] != self._generation

    def update(self, header: memoryview, content: bytes) -> None:
        """Read all of them."""
        length = layout.TEXTS.record_bytes
        whole = len(content) // length * length
        self._texts = [_printable(layout.untext(content[at : at + length])) for at in range(0, whole, length)]
        self._generation = header[layout.TEXTS.generation_at]


class Table(Generic[Kept]):
    """The rows of one region."""

    def __init__(self, region: Region, seal_at: int, texts: Texts, make: Callable[[memoryview], Kept | None]) -> None:
        self.rows: tuple[Kept, ...] = ()
        self.generation: int | None = None
        self._length = region.record_bytes
        self._seal_at = seal_at
        self._texts = texts
        self._make = make
        self._seen = b""
        self._by_number: list[Kept | None] = []
        self._unsure: set[int] = set()

    @property
    def incomplete(self) -> bool:
        """A record was just being written, or names a text that was not there yet."""
        return bool(self._unsure)

    def update(self, content: bytes) -> None:
        """Make rows of the records that changed."""
        if content == self._seen and not self._unsure:
            return
        unsure, self._unsure = self._unsure, set[int]()
        before, self._by_number = self._by_number, []
        for number in range(len(content) // self._length):
            old = before[number] if number < len(before) else None
            start, end = number * self._length, (number + 1) * self._length
            same = old is not None and number not in unsure and content[start:end] == self._seen[start:end]
            self._by_number.append(old if same else self._row(number, content[start:end], old))
        self._seen = content
        rows = tuple(row for row in self._by_number if row is not None)
        if len(rows) != len(self.rows) or any(new is not old for new, old in zip(rows, self.rows, strict=True)):
            self.rows = rows

    def _row(self, number: int, record: bytes, old: Kept | None) -> Kept | None:
        words = memoryview(record).cast("Q")
        if words[self._seal_at] == 0:
            return None
        self._texts.missed = False
        row = self._make(words)
        if row is None or self._texts.missed:
            self._unsure.add(number)
        return old if row is None or row == old else row


def _printable(text: str | None) -> str | None:
    """The text without terminal control characters."""
    if text is None or text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
