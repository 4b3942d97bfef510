"""Memory and maps of a process that lies: whatever a reader of foreign memory may meet, made from one number.

A reader follows pointers in memory that changes under it, so any word may be anything.  `GarbageMemory` stands in for
`mpmon.probes.memory.Memory` and `LyingProc` for `mpmon.probes.files.Proc`; both answer the same question in the same way
for the same seed.  A reader that reads for ever is caught by the limits, not by a clock: `TooMuch` is no error a reader
may handle.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from mpmon.probes.files import Proc
from mpmon.probes.memory import READ_LIMIT

PAGE = 4096
WORDS = PAGE // 8

Range = tuple[int, int]
"""First address and the one after the last."""


class TooMuch(BaseException):
    """A reader read more than any honest search needs; not an `Exception`, so that nothing handles it."""


class GarbageMemory:
    """Readable ranges full of pointers into themselves and each other, small numbers, letters and noise."""

    def __init__(
        self,
        seed: int,
        ranges: Sequence[Range] = ((0x10000, 0x90000),),
        *,
        hidden: Sequence[Range] = (),
        words: Sequence[int] = (),
        planted: Mapping[int, bytes] | None = None,
        ends_after: int | None = None,
        fails: float = 0.0,
        most_reads: int = 20_000,
        most_bytes: int = 1 << 26,
        at_read: Callable[[int], None] = lambda _: None,
    ) -> None:
        """The noise points into `ranges` and not into `hidden`; `words` are strewn among it, `planted` lies over it.

        After `ends_after` reads the process is gone; a share `fails` of all reads gives less than was asked for; `at_read`
        is told the number of each read before it happens.
        """
        self.reads = 0
        self.bytes = 0
        self._random = random.Random(seed)
        self._seed = seed
        self._ranges = [(start, end) for start, end in ranges if start < end]
        self._readable = [*self._ranges, *hidden]
        self._planted = dict(planted or {})
        self._ends_after = ends_after
        self._fails = fails
        self._most_reads, self._most_bytes = most_reads, most_bytes
        self._at_read = at_read
        self._pages: dict[int, bytes] = {}
        self._pool = [*self._words(), *words, *words]

    def __enter__(self) -> GarbageMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def read(self, address: int, size: int) -> bytes | None:
        """As `Memory.read`."""
        if not 0 < address < 1 << 63 or not 0 < size <= READ_LIMIT:
            self._count(0)
            return None
        text = self._answer(address, size)
        return text if len(text) == size else None

    def read_some(self, address: int, size: int) -> bytes:
        """As `Memory.read_some`."""
        return self._answer(address, size)

    def pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """As `Memory.pieces`; each piece counts as a read."""
        return [self.read(address, size) or b"" for address, size in wanted]

    def unpack(self, layout: str, address: int) -> tuple[int, ...] | None:
        """As `Memory.unpack`."""
        text = self.read(address, struct.calcsize("=" + layout))
        return None if text is None else struct.unpack("=" + layout, text)

    def _answer(self, address: int, size: int) -> bytes:
        self._count(size)
        if self._ends_after is not None and self.reads > self._ends_after:
            return b""
        if self._fails and self._random.random() < self._fails:
            size = self._random.randrange(size)
        end = next((end for start, end in self._readable if start <= address < end), address)
        return self._text(address, min(size, end - address))

    def _count(self, size: int) -> None:
        self.reads += 1
        self._at_read(self.reads)
        self.bytes += size
        if self.reads > self._most_reads or self.bytes > self._most_bytes:
            raise TooMuch(f"{self.reads} reads, {self.bytes} bytes")

    def _text(self, address: int, size: int) -> bytes:
        if size <= 0:
            return b""
        first, last = address // PAGE, (address + size - 1) // PAGE
        text = bytearray(b"".join(map(self._page, range(first, last + 1))))
        for place, planted in self._planted.items():
            at = place - first * PAGE
            if -len(planted) < at < len(text):
                cut = planted[max(0, -at) : len(text) - at]
                text[max(0, at) : max(0, at) + len(cut)] = cut
        return bytes(text[address - first * PAGE :][:size])

    def _page(self, number: int) -> bytes:
        if number not in self._pages:
            chosen = random.Random(f"{self._seed}:{number}").choices(self._pool, k=WORDS)
            self._pages[number] = struct.pack(f"={WORDS}Q", *chosen)
        return self._pages[number]

    def _words(self) -> list[int]:
        """What lies in memory: the pointers among it lead somewhere, around in circles, or nowhere."""
        random_ = self._random
        inside = [random_.randrange(start, end) for start, end in self._ranges for _ in range(24)]
        edges = [edge - back for start, end in self._ranges for edge in (start, end) for back in (0, 1, 8)]
        letters = [int.from_bytes(random_.choice((b"_multipr", b"__main__", b"\xff" * 8)), "little") for _ in range(2)]
        noise = [random_.getrandbits(64) for _ in range(12)]
        numbers = [0, 0, 0, 1, 2, 3, 30, 255, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 1]
        aligned = [word & ~7 for word in inside]
        return [word % (1 << 64) for word in (*aligned, *inside[:4], *edges, *noise, *letters, *numbers)]


class LyingProc(Proc):
    """A /proc in which one file says what a test says; nothing else is there."""

    def __init__(self, **files: bytes) -> None:
        super().__init__("/nonexistent")
        self._files = files

    def read(self, *parts: str | int, limit: int = 1 << 16) -> bytes:
        """The file of that name, whoever's it is.

        Raises:
            FileNotFoundError: there is no such file.
        """
        if str(parts[-1]) not in self._files:
            raise FileNotFoundError(2, "No such file or directory")
        return self._files[str(parts[-1])][:limit]


def maps_line(start: int, end: int, *, rights: str = "rw-p", inode: int = 0, path: str = "") -> str:
    """One line of proc_pid_maps(5)."""
    return f"{start:x}-{end:x} {rights} 00000000 00:1b {inode}".ljust(73 if path else 0) + path + "\n"
