"""Programs and libraries in files: elf(5), 64 bits, little-endian.

A job may map any file, so no number in one decides how much is read, and a file that contradicts itself is `BadElf`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

TABLE_LIMIT = 1 << 16
"""Most bytes read of the tables of sections and of segments; libpython's have 2 kB."""

SHARED_OBJECT = 3
"""ET_DYN: addresses count from where the file is mapped."""
LOAD, NOTE, FRAMES = 1, 4, 0x6474E550
"""Kinds of segments: PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME."""
EXECUTABLE = 1
"""PF_X"""
SYMBOLS, DYNAMIC_SYMBOLS = 2, 11
"""Kinds of sections: SHT_SYMTAB, SHT_DYNSYM."""

SYMBOL = struct.Struct("<IBBHQQ")
"""Name, kind and binding, visibility, section, value, size."""

BUILD_ID = 3
"""NT_GNU_BUILD_ID"""
NOTES_LIMIT = 1 << 12
LONGEST_BUILD_ID = 64

_HEADER = struct.Struct("<6s10xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOTE = struct.Struct("<III")


class BadElf(ValueError):
    """This is not such a file, or it contradicts itself; the message is the rest of a sentence about its name."""


class Text(Protocol):
    """Where the bytes of a file are."""

    def part(self, at: int, size: int) -> bytes:
        """A part of the file; fewer bytes, or none, at its end."""
        ...


@dataclass(frozen=True)
class Program:
    """An open file, and what identifies it."""

    device: int
    inode: int
    size: int
    changed_at: tuple[int, int]
    """When its content, and when anything about it, was last changed, nanoseconds since the epoch."""
    descriptor: Callable[[], int] = field(compare=False)
    """Called only to read: for a known file that may be unnecessary."""

    def part(self, at: int, size: int) -> bytes:
        """A part of the file.

        Raises:
            OSError: as open(2) and pread(2).
        """
        return os.pread(self.descriptor(), size, at) if at < self.size and size else b""


def program(descriptor: Callable[[], int], info: os.stat_result) -> Program:
    """The file that is open there, with its fstat(2)."""
    return Program(info.st_dev, info.st_ino, info.st_size, (info.st_mtime_ns, info.st_ctime_ns), descriptor)


class Segment(NamedTuple):
    """What is mapped, and how."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    size: int
    """Bytes in the file."""
    room: int
    """Bytes in memory."""
    alignment: int


class Section(NamedTuple):
    """One table of the file."""

    name_at: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    """For symbols: the number of the section with their names."""
    info: int
    alignment: int
    row: int


class Header(NamedTuple):
    """The content of the first bytes."""

    kind: int
    machine: int
    """e_machine"""
    segments: tuple[Segment, ...]
    sections_at: int
    section_size: int
    sections: int
    """How many."""
    names: int
    """Number of the section with the names of sections."""

    @property
    def loads(self) -> list[Segment]:
        """The segments that are mapped."""
        return [segment for segment in self.segments if segment.kind == LOAD]

    @property
    def base(self) -> int:
        """The address of the first mapped byte: 0 for a library."""
        return min((segment.address for segment in self.loads), default=0)


def header_of(text: Text) -> Header:
    """
    Raises:
        BadElf: no program.
        OSError: as `Text.part`.
    """
    head = text.part(0, _HEADER.size)
    if len(head) < _HEADER.size or not head.startswith(b"\x7fELF"):
        raise BadElf("is not a program")
    magic, kind, machine, _, _, segments_at, sections_at, _, _, size, count, section_size, sections, names = (
        _HEADER.unpack(head)
    )
    if magic[4:] != b"\x02\x01":
        raise BadElf("is not a 64-bit little-endian program")
    segments = tuple(map(Segment._make, _SEGMENT.iter_unpack(_table(text, segments_at, size, count, _SEGMENT))))
    return Header(kind, machine, segments, sections_at, section_size, sections, names)


def sections_of(text: Text, header: Header) -> tuple[Section, ...]:
    """None if the file was stripped of their table, or has too many.

    Raises:
        OSError: as `Text.part`.
    """
    table = _table(text, header.sections_at, header.section_size, header.sections, _SECTION)
    return tuple(map(Section._make, _SECTION.iter_unpack(table)))


def section_named(text: Text, header: Header, sections: tuple[Section, ...], name: bytes) -> Section | None:
    """
    Raises:
        OSError: as `Text.part`.
    """
    if header.names >= len(sections):
        return None
    names = text.part(sections[header.names].offset, min(sections[header.names].size, TABLE_LIMIT))
    at = (b"\0" + names).find(b"\0" + name + b"\0")
    return next((section for section in sections if section.name_at == at >= 0), None)


def build_id(notes: bytes) -> str | None:
    """The linker's identifier of this build, in hexadecimal, from the notes of a file."""
    at = 0
    while at + _NOTE.size <= len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, at)
        name_at = at + _NOTE.size
        content_at = name_at + (name_size + 3 & ~3)
        if kind == BUILD_ID and notes[name_at : name_at + 4] == b"GNU\0" and 0 < size <= LONGEST_BUILD_ID:
            return notes[content_at : content_at + size].hex()
        at = content_at + (size + 3 & ~3)
    return None


def _table(text: Text, at: int, size: int, count: int, row: struct.Struct) -> bytes:
    """Rows whose size the file gives, which is not trusted; none if there would be too many."""
    if size != row.size or size * count > TABLE_LIMIT:
        return b""
    table = text.part(at, size * count)
    return table[: len(table) // size * size]
