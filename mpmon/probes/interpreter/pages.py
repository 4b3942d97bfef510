"""Reading the memory of one process page by page, up to a limit: what all objects of an interpreter are read with."""

from __future__ import annotations

import struct
import sys

from mpmon.probes.memory import Memory

READS = 60_000
"""Most reads of one process's memory in one look; a hundred threads need some thousand."""

TOO_MUCH = "its calls refer to more memory than one sample may read"

_POINTER = struct.Struct("=Q").unpack_from

_PAGE, _MOST_PAGES = 4096, 1000
"""Memory is mapped, and read here, in whole pages; this many are kept for the duration of a look."""


class Torn(Exception):
    """A pointer that leads nowhere, or too many pointers: this part of the process cannot be read now."""


class Pages:
    """The memory of one process, as of one look."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pages: dict[int, bytes | None] = {}
        """Pages read so far: objects lie close together, and a read costs more than a copy."""
        self._left = READS

    def words(self, fields: str, address: int) -> tuple[int, ...]:
        """Integers at an address, in the layout of `struct`.

        Raises:
            Torn: they cannot be read.
        """
        fields = f"={fields}"
        return struct.unpack(fields, self.read(address, struct.calcsize(fields)))

    def word(self, address: int) -> int:
        """The pointer at an address. Raises `Torn`."""
        page, begin = divmod(address, _PAGE)
        block = self._pages.get(page)
        if block is None or begin > _PAGE - 8 or self._left <= 1:
            return int.from_bytes(self.read(address, 8), sys.byteorder)
        # Half of all reads come through here, so even one more call is noticeable.
        self._left -= 1
        (found,) = _POINTER(block, begin)
        return found

    def read(self, address: int, size: int) -> bytes:
        """Bytes at an address, as of now or of a moment ago. Raises `Torn`."""
        self._left -= 1
        if self._left <= 0:
            raise Torn(TOO_MUCH)
        text = self._read(address, size)
        if text is None:
            raise Torn
        return text

    def _read(self, address: int, size: int) -> bytes | None:
        page, begin = divmod(address, _PAGE)
        if not 0 < size <= _PAGE - begin or len(self._pages) >= _MOST_PAGES:
            return self._memory.read(address, size)
        if page not in self._pages:
            self._pages[page] = self._memory.read(page * _PAGE, _PAGE)
        block = self._pages[page]
        return None if block is None else block[begin : begin + size]

    def forget_pages(self) -> None:
        """Read everything anew from now on."""
        self._pages.clear()
