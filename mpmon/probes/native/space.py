"""The memory of a process as code and as words: which file is mapped where, and its bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from mpmon.probes.door import FILE, Found, Place, opened_behind, seen_by, words
from mpmon.probes.elf import BadElf, Program, program
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, Layout
from mpmon.probes.memory import Memory
from mpmon.probes.native.dwarf import WORD
from mpmon.probes.native.image import Library, Loaded, LoadedLibrary, image_of, known_image
from mpmon.probes.native.machines import Machine

PAGE = 4096
STACK_LIMIT = 1 << 23
"""Most bytes of one stack that are read: the default stack size."""

MOST_LIBRARIES = 256
"""Files of one process that are opened."""

_WORD = struct.Struct("<Q")
_VDSO = "[vdso]"
"""Code that the kernel maps into every process."""


class Code(NamedTuple):
    """An area that may be executed."""

    area: Area
    library: Library | None
    bias: int
    """To be added to the library's own addresses."""
    problem: str | None
    """Why there is no library."""


class Space:
    """One process, for the length of a `with` block; what is found is cached for that long."""

    def __init__(self, proc: Proc, pid: int, memory: Memory, areas: Layout, machine: Machine) -> None:
        self._proc, self._pid = proc, pid
        self.memory = memory
        self.machine = machine
        self._areas = areas
        self._codes: dict[int, Code | None] = {}
        """By page."""
        self._codes_of: dict[int, Code] = {}
        """By the start of the area."""
        self._libraries: dict[int, Library | str] = {}
        """By the address at which the file is mapped."""
        self._open = ExitStack()

    def __enter__(self) -> Space:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def area(self, address: int) -> Area | None:
        """The mapped area that contains an address."""
        return self._areas.at(address)

    def code(self, address: int) -> Code | None:
        """The code at an address; `None` where it is not executable."""
        page = address // PAGE
        try:
            return self._codes[page]
        except KeyError:
            found = self._codes[page] = self._code_at(address)
            return found

    def _code_at(self, address: int) -> Code | None:
        area = self.area(address)
        if area is None or "x" not in area.rights:
            return None
        if area.start not in self._codes_of:
            self._codes_of[area.start] = self._code(area)
        return self._codes_of[area.start]

    def code_bytes(self, address: int, size: int) -> bytes:
        """Bytes of code; from the file where there is one, so that no page has to be faulted into the process."""
        code = self.code(address)
        if code is None:
            return b""
        size = min(size, code.area.end - address)
        found = code.library.code(address - code.bias, size) if code.library else b""
        return found if len(found) == size else self.memory.read_some(address, size)

    def word(self, address: int) -> int:
        """The word at an address.

        Raises:
            LookupError: it cannot be read.
        """
        text = self.memory.read_some(address & WORD, _WORD.size)
        if len(text) < _WORD.size:
            raise LookupError(address)
        return _WORD.unpack(text)[0]

    # Files

    def _code(self, area: Area) -> Code:
        found = self._library(area)
        if isinstance(found, str):
            return Code(area, None, 0, found)
        if found.image.header.machine != self.machine.number:
            return Code(area, None, 0, "is for another kind of processor")
        if isinstance(found, LoadedLibrary):
            return Code(area, found, self._loaded_at(area) - found.image.header.base, None)
        bias = found.bias(area.start, area.offset)
        return Code(area, None, 0, "has no code where it is mapped") if bias is None else Code(area, found, bias, None)

    def _library(self, area: Area) -> Library | str:
        """The library, or why there is none, worded to follow its name."""
        start = self._loaded_at(area)
        if start not in self._libraries:
            full = len(self._libraries) >= MOST_LIBRARIES
            self._libraries[start] = "is one of too many" if full else self._opened(area)
        return self._libraries[start]

    def _opened(self, area: Area) -> Library | str:
        if area.path == _VDSO:
            return self._loaded(area, "cannot be read")
        if not area.path.startswith("/"):
            return "lies in no file"
        try:
            return self._file(area)
        except BadElf as problem:
            return str(problem)
        except OSError as problem:
            return self._loaded(area, words(problem))

    def _file(self, area: Area) -> Library:
        """
        Raises:
            BadElf: no program.
            OSError: the mapped file cannot be opened.
        """
        path = area.path.removesuffix(" (deleted)")
        # For a process in a container, maps shows the path as the process sees it, and in a chroot as mpmon sees it.
        for place in (seen_by(self._proc, self._pid, path), Place(path)):
            try:
                file = self._open.enter_context(Found(place, FILE))
            except OSError:
                continue
            # Since it was mapped, another file may have taken that path.
            if area.is_of(file.info):
                return _known(program(file.descriptor, file.info))
        link = self._proc.path(self._pid, "map_files", f"{area.start:x}-{area.end:x}")
        descriptor = self._open.enter_context(opened_behind(link, FILE))
        return _known(program(lambda: descriptor, os.fstat(descriptor)))

    def _loaded(self, area: Area, problem: str) -> Library | str:
        """The file as it lies in memory, which includes frame information, but no names."""
        start = self._loaded_at(area)
        try:
            return LoadedLibrary(image_of(Loaded(self.memory, start)), self.memory, start)
        except (BadElf, OSError):
            return problem

    def _loaded_at(self, area: Area) -> int:
        """Where the beginning of the file is mapped: the nearest before this area."""
        while (
            area.offset
            and (before := self._areas.before(area))
            and (before.device, before.inode) == (area.device, area.inode)
        ):
            area = before
        return area.start


def _known(text: Program) -> Library:
    return Library(known_image(text), text)


class Stack:
    """The stack of one thread, read page by page as it is asked for."""

    def __init__(self, space: Space, pointer: int) -> None:
        self._space = space
        area = space.area(pointer)
        self.start = pointer & -8
        self.end = min(area.end, self.start + STACK_LIMIT) if area else self.start
        self._pages: dict[int, Sequence[int]] = {}
        """Words by page."""

    def word(self, address: int) -> int:
        """As `Space.word`; from some frame on the stack may be elsewhere, as with a signal handler's own stack."""
        words = self._pages.get(address // PAGE)
        if words is None or address % _WORD.size:
            words = self._page(address)
        if words is None:
            return self._space.word(address)
        # A page at the end of readable memory has fewer words, and IndexError is a LookupError.
        return words[address % PAGE // _WORD.size]

    def _page(self, address: int) -> Sequence[int] | None:
        """The words of the page that contains an address; `None` outside the stack."""
        if not self.start <= address <= self.end - _WORD.size or address % _WORD.size:
            return None
        page = address // PAGE
        if page not in self._pages:
            text = self._text(page * PAGE)
            self._pages[page] = memoryview(text[: len(text) // _WORD.size * _WORD.size]).cast("Q")
        return self._pages[page]

    def _text(self, start: int) -> bytes:
        return self._space.memory.read_some(start, PAGE)

    def word_or_zero(self, address: int) -> int:
        """0 where nothing can be read."""
        try:
            return self.word(address)
        except LookupError:
            return 0


class CopiedStack(Stack):
    """A stack whose lowest piece was copied when the thread was at that pointer; the rest is read as it is now."""

    def __init__(self, space: Space, pointer: int, copy: bytes) -> None:
        super().__init__(space, pointer)
        self._at, self._copy = pointer, copy

    def _text(self, start: int) -> bytes:
        begin, end = max(start, self._at), min(start + PAGE, self._at + len(self._copy))
        if begin >= end:
            return super()._text(start)
        copied = self._copy[begin - self._at : end - self._at]
        if len(copied) == PAGE:
            return copied
        now = super()._text(start).ljust(end - start, b"\0")
        return now[: begin - start] + copied + now[end - start :]
