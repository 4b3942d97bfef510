"""One program or library: its frame information and its names, read in small pieces and cached for all processes that map it.

Nothing is mapped: overwriting a mapped file in place would kill the process that maps it with SIGBUS.  The cache key is
device, inode, size, mtime and ctime (which nobody can set), so a file that was replaced or overwritten is read anew.

An FDE begins where the symbol of its function does, so the name is the symbol with exactly that value; the nearest symbol
before an address would be wrong in a stripped library.  Symbols are unsorted, so all names of one look are found in one pass:
530,000 symbols of libtorch_cpu in 40 ms.  A library without `.symtab` may have a small one in `.gnu_debugdata` (xz), as
libraries of RPM distributions and the libgomp of torch's wheels do.
"""

from __future__ import annotations

import lzma
import re
import struct
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from mpmon.probes.elf import (
    DYNAMIC_SYMBOLS,
    EXECUTABLE,
    FRAMES,
    NOTE,
    NOTES_LIMIT,
    SYMBOL,
    SYMBOLS,
    BadElf,
    Header,
    Program,
    Section,
    Segment,
    Text,
    build_id,
    header_of,
    section_named,
    sections_of,
)
from mpmon.probes.memory import Memory
from mpmon.probes.native.cfi import Rules, function_at, rules_at
from mpmon.probes.native.dwarf import BadFrames
from mpmon.probes.native.machines import X86_64

MOST_IMAGES = 128
"""Cached files; a rank of a job maps some hundred."""

MOST_KEPT = 1 << 13
"""Cached rules of one file, and cached names."""

SHORT = 16
"""Largest piece of code that is cached, in bytes: as much as is examined of a call or a PLT entry."""

PIECE = SYMBOL.size << 15
"""Bytes of symbols that are searched at once."""

SYMBOLS_LIMIT = 1 << 27
"""Most bytes of symbols that are searched; libtorch_cuda has 30 MB."""

PACKED_LIMIT, UNPACKED_LIMIT, MEMORY_LIMIT = 1 << 24, 1 << 26, 1 << 27
"""Limits for `.gnu_debugdata` in bytes: size in the file, size unpacked, and memory used for unpacking."""

LONGEST_NAME = 1 << 12
"""Bytes of a symbol's name."""

REACH = 1 << 20
"""How far before an address its enclosing symbol may begin."""

_WITH_CODE = frozenset({0, 1, 2, 10})
"""STT_NOTYPE (hand-written code), OBJECT, FUNC and GNU_IFUNC."""

MOST_CODE = 1 << 21
"""Largest code segment, in bytes, that is searched for jumps; the C library has 1.4 MB."""

_WAYS = re.compile(rb"(?:[\xe8\xe9]|\x0f[\x80-\x8f])(?=(.{4}))", re.DOTALL)
"""CALL, JMP and Jcc of x86-64, with their target (Intel's manual, volume 2)."""
_CALL, _SHORT = 0xE8, frozenset({*range(0x70, 0x80), 0xEB})
"""CALL; Jcc and JMP over at most `NEAR` bytes."""
NEAR = 130
_FAR = struct.Struct("<i")

_PAGE = 4096

Key = TypeVar("Key")
Kept = TypeVar("Kept")


class Names(NamedTuple):
    """One table of symbols and the file it is in, which may be unpacked."""

    text: Text
    symbols: Section
    strings: Section


class Image:
    """What is known about one file. Threads may share it, since all of them would find the same."""

    def __init__(self, header: Header, name: str | None) -> None:
        self.header = header
        self.build_id = name
        self.frames = next((segment.address for segment in header.segments if segment.kind == FRAMES), None)
        self.loads = header.loads
        self.rules: dict[int, Rules | None] = {}
        """By address."""
        self.code: dict[tuple[int, int], bytes] = {}
        """Short pieces, by address and size."""
        self.names: dict[int, str | None] = {}
        """Symbols by value."""
        self.extents: dict[int, tuple[int, int] | None] = {}
        self.sections: tuple[Section, ...] | None = None
        self.unpacked: bytes | None = None
        """The content of `.gnu_debugdata`; `None` before it is first requested."""


class Library:
    """An open image, for the length of one look."""

    def __init__(self, image: Image, text: Text) -> None:
        self.image = image
        self.text = text

    def view(self, address: int, size: int) -> bytes:
        """Bytes at an address in the file's own numbering; fewer, or none, where there are none.

        Raises:
            OSError: as pread(2).
        """
        for segment in self.image.loads:
            if segment.address <= address < segment.address + segment.size:
                inside = address - segment.address
                return self.text.part(segment.offset + inside, min(size, segment.size - inside))
        return b""

    def code(self, address: int, size: int) -> bytes:
        """As `view`, for code; short pieces are cached, since the same calls are examined again and again."""
        kept = self.image.code
        found = kept.get((address, size))
        if found is None:
            try:
                found = self.view(address, size)
            except OSError:
                found = b""
            if size <= SHORT:
                _make_room(kept)
                kept[address, size] = found
        return found

    def bias(self, start: int, offset: int) -> int | None:
        """What to add to the file's own addresses where it is mapped executable at `start` from `offset` on."""
        for segment in self.image.loads:
            first = segment.offset & -_PAGE
            if segment.flags & EXECUTABLE and first <= offset < segment.offset + segment.size:
                return start - offset + segment.offset - segment.address
        return None

    def rules(self, address: int) -> Rules | None:
        """How to get to the caller from there; `None` where the file has no frame information for it."""
        kept = self.image.rules
        if address not in kept:
            _make_room(kept)
            kept[address] = self._rules(address)
        return kept[address]

    def _rules(self, address: int) -> Rules | None:
        if self.image.frames is None:
            return None
        try:
            function = function_at(self.view, self.image.frames, address)
            return rules_at(function, address) if function else None
        except (BadFrames, OSError):
            return None

    # Names

    def find_names(self, starts: Collection[int]) -> None:
        """Put the names of the functions that begin there into `Image.names`; `None` for a function without a name."""
        wanted = {start for start in starts if start not in self.image.names}
        if not wanted:
            return
        _make_room(self.image.names)
        found: dict[int, tuple[tuple[int, int], str]] = {}
        for table in self._tables():
            try:
                _search(table, wanted, found)
            except OSError:
                continue
            wanted -= found.keys()
        self.image.names.update(dict.fromkeys(wanted))
        self.image.names.update((start, name) for start, (_, name) in found.items())
        for start, outer in self._only_ways(wanted).items():
            if outer not in wanted:
                self.find_names({outer})
                self.image.names[start] = self.image.names[outer]

    def _only_ways(self, starts: Collection[int]) -> dict[int, int]:
        """For functions without names, the single function that jumps there, if nothing calls them: they are parts of it, such
        as the slow path of `sem_wait` in a C library that has only the names of public functions left.
        """
        ways: dict[int, set[int]] = {}
        for segment in self.image.loads if starts and self.image.header.machine == X86_64.number else ():
            if not segment.flags & EXECUTABLE or segment.size > MOST_CODE:
                continue
            text = self.view(segment.address, segment.size)
            for jump in _WAYS.finditer(text):
                to = segment.address + jump.end() + 4 + _FAR.unpack(jump[1])[0]
                if to in starts:
                    is_call = text[jump.start()] == _CALL
                    ways.setdefault(to, set()).add(-1 if is_call else self._function(segment.address + jump.start()))
            for start, outer in ways.items():
                outer.update(self._near_ways(start - segment.address, text, segment.address))
        return {start: next(iter(outer)) for start, outer in ways.items() if len(outer) == 1 and -1 not in outer}

    def _near_ways(self, start: int, text: bytes, address: int) -> set[int]:
        """Functions with a byte that looks like a short jump there; it may be chance, so they only rule out a single origin."""
        window = range(max(start - NEAR, 0), min(start + NEAR, len(text) - 1))
        jumps = (at for at in window if text[at] in _SHORT and at + 2 + (text[at + 1] ^ 128) - 128 == start)
        return {self._function(address + at) for at in jumps} - {address + start}

    def _function(self, address: int) -> int:
        rules = self.rules(address)
        return rules.function.start if rules else -1

    def extent(self, address: int) -> tuple[int, int] | None:
        """Where the symbol that contains an address begins and ends: for code without frame information."""
        kept = self.image.extents
        if address not in kept:
            _make_room(kept)
            kept[address] = self._extent(address)
        return kept[address]

    def _extent(self, address: int) -> tuple[int, int] | None:
        start, end = address - REACH, address + REACH
        try:
            for table in self._tables():
                for _, values in _pieces(table):
                    near = [value for value in values if start <= value < end]
                    start = max((value for value in near if value <= address), default=start)
                    end = min((value for value in near if value > address), default=end)
                if start > address - REACH:
                    return start, end
        except OSError:
            pass
        return None

    def _tables(self) -> Iterator[Names]:
        """Symbol tables, the fullest first."""
        try:
            sections = self._sections()
            own = list(_tables_in(self.text, sections))
            if not any(table.symbols.kind == SYMBOLS for table in own):
                yield from self._unpacked(sections)
            yield from own
        except OSError:
            return

    def _sections(self) -> tuple[Section, ...]:
        if self.image.sections is None:
            self.image.sections = sections_of(self.text, self.image.header)
        return self.image.sections

    def _unpacked(self, sections: tuple[Section, ...]) -> list[Names]:
        if self.image.unpacked is None:
            section = section_named(self.text, self.image.header, sections, b".gnu_debugdata")
            packed = self.text.part(section.offset, min(section.size, PACKED_LIMIT)) if section else b""
            self.image.unpacked = _unpacked(packed)
        inner = Bytes(self.image.unpacked)
        try:
            return list(_tables_in(inner, sections_of(inner, header_of(inner))))
        except BadElf:
            return []


class Bytes:
    """A file in our own memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def part(self, at: int, size: int) -> bytes:
        """As `Text.part`."""
        return self._content[at : at + size]


class Loaded:
    """A file as it lies in the memory of a process: the vDSO, or a file that cannot be opened."""

    def __init__(self, memory: Memory, start: int) -> None:
        self._memory, self._start = memory, start

    def part(self, at: int, size: int) -> bytes:
        """As `Text.part`, as far as the beginning of the file is mapped in one piece."""
        return self._memory.read_some(self._start + at, size) if size and self._start + at < 1 << 63 else b""


class LoadedLibrary(Library):
    """An image in the memory of a process. Its sections are not mapped, so it has no names."""

    def __init__(self, image: Image, memory: Memory, start: int) -> None:
        super().__init__(image, Loaded(memory, start))

    def view(self, address: int, size: int) -> bytes:
        """As `Library.view`."""
        base = self.image.header.base
        return self.text.part(address - base, size) if address >= base else b""

    def _tables(self) -> Iterator[Names]:
        return iter(())


def image_of(text: Text) -> Image:
    """
    Raises:
        BadElf: no program.
        OSError: as `Text.part`.
    """
    header = header_of(text)
    return Image(header, _build_id(text, header))


@lru_cache(maxsize=MOST_IMAGES)
def known_image(program: Program) -> Image:
    """As `image_of`, cached: a file with other content has other times, or is another file.

    Raises:
        BadElf: no program.
        OSError: as pread(2).
    """
    return image_of(program)


def _build_id(text: Text, header: Header) -> str | None:
    found = (_id_in(text, segment) for segment in header.segments if segment.kind == NOTE)
    return next((name for name in found if name), None)


def _id_in(text: Text, segment: Segment) -> str | None:
    return build_id(text.part(segment.offset, min(segment.size, NOTES_LIMIT)))


def _make_room(kept: dict[Key, Kept]) -> None:
    if len(kept) >= MOST_KEPT:
        kept.clear()


def _tables_in(text: Text, sections: tuple[Section, ...]) -> Iterator[Names]:
    for kind in (SYMBOLS, DYNAMIC_SYMBOLS):
        for section in sections:
            if section.kind == kind and section.link < len(sections):
                yield Names(text, section, sections[section.link])
                break


def _pieces(table: Names) -> Iterator[tuple[bytes, list[int]]]:
    """Symbols in pieces, each with the values of all its symbols."""
    end = table.symbols.offset + min(table.symbols.size, SYMBOLS_LIMIT)
    for at in range(table.symbols.offset, end, PIECE):
        piece = table.text.part(at, min(PIECE, end - at))
        piece = piece[: len(piece) // SYMBOL.size * SYMBOL.size]
        if not piece:
            return
        yield piece, memoryview(piece).cast("Q")[1::3].tolist()


def _search(table: Names, wanted: Collection[int], found: dict[int, tuple[tuple[int, int], str]]) -> None:
    """Add the names of these values, each with its rank: global names are preferred, then short ones."""
    for piece, values in _pieces(table):
        for value in set(wanted).intersection(values):
            at = -1
            for _ in range(values.count(value)):
                at = values.index(value, at + 1)
                _take(table, piece, at, found)


def _take(table: Names, piece: bytes, at: int, found: dict[int, tuple[tuple[int, int], str]]) -> None:
    name_at, kind, _, section, value, _ = SYMBOL.unpack_from(piece, SYMBOL.size * at)
    if not name_at or not section or kind & 15 not in _WITH_CODE or name_at >= table.strings.size:
        return
    name = table.text.part(table.strings.offset + name_at, LONGEST_NAME).partition(b"\0")[0].decode("utf-8", "replace")
    rank = (kind >> 4 != 1, len(name))
    if name and (value not in found or rank < found[value][0]):
        found[value] = rank, name


def _unpacked(packed: bytes) -> bytes:
    """Empty where it cannot be unpacked within the limits."""
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, MEMORY_LIMIT).decompress(packed, UNPACKED_LIMIT)
    except (lzma.LZMAError, MemoryError, EOFError):
        return b""
