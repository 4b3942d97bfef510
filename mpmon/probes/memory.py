"""Bounded reads of another process's memory: process_vm_readv(2).

Reading needs the right to attach (PTRACE_MODE_ATTACH), but nothing is attached and nothing stops. Every address comes
from a register or from memory that may change meanwhile, so every read may fail.

Reading a page of a file waits for the file system. Through proc_pid_mem(5) that wait would hold the lock of the
process's mappings, so that its own next mmap(2) waited too (seen on Linux 6.18 with a FUSE server that does not
answer); the system call releases the lock. So each page is read by the system call first, and then, while it is
present, through the file, which takes half the time. The call waits for the lock uninterruptibly, though, so the lock
is tried first, in a way that can be killed: by the first byte of proc_pid_environ(5).
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import TracebackType

from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, areas
from mpmon.probes.silence import silent_devices

READ_LIMIT = 1 << 16
"""The longest single read, bytes."""

PIECES_LIMIT = 1 << 24
"""Most bytes read at once, over many pieces."""

MOST_PIECES = 1024
"""Most pieces of one system call: IOV_MAX."""

PAGE_BITS = 12
"""The smallest page size; a value below a real page only costs speed."""


class Memory:
    """The memory of one process, open for the length of a `with` block."""

    def __init__(self, proc: Proc, pid: int) -> None:
        """
        Raises:
            OSError: the process is gone, or its memory cannot be read.
        """
        silent = silent_devices()
        self._untouchable = [
            (area.start, area.end) for area in (areas(proc, pid) if silent else ()) if area.device in silent
        ]
        """Pages of files whose server does not respond: reading one would block."""
        # Opening it tells whether it may be read.
        self._descriptor = os.open(proc.path(pid, "mem"), os.O_RDONLY | os.O_CLOEXEC)
        self._copies = _Copies(pid) if proc.root == "/proc" else None
        """`None` for a recorded tree, where memory is a file."""
        self._present: set[int] = set()
        """Pages that were read."""
        if self._copies:
            _try_lock(proc, pid)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, address: int, size: int) -> bytes | None:
        """`size` bytes at `address`; `None` if they cannot be read in full."""
        if not 0 < size <= READ_LIMIT:
            return None
        text = self.read_some(address, size)
        return text if len(text) == size else None

    def read_some(self, address: int, size: int) -> bytes:
        """Up to `size` bytes at `address`; fewer, or none, if memory ends or cannot be read."""
        if not 0 < address < 1 << 63:
            return b""
        pages = address >> PAGE_BITS, (address + size - 1) >> PAGE_BITS
        try:
            if self._copies is None or self._present.issuperset(pages):
                return os.pread(self._descriptor, size, address)
            if self._untouchable and self._is_untouchable(address, size):
                return b""
            text = self._copies.bytes_at(address, size)
        except OSError:
            return b""
        if pages[1] - pages[0] <= 1 and len(text) == size:
            self._present.update(pages)
        return text

    def pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """The contents of these addresses, each with its size, in as few system calls as possible.

        A piece is empty if it cannot be read in full, or if all pieces before it add up to `PIECES_LIMIT` bytes.
        """
        found = [b""] * len(wanted)
        readable: list[int] = []
        left = PIECES_LIMIT
        for place, (address, size) in enumerate(wanted):
            is_possible = 0 < size <= READ_LIMIT and size <= left and 0 < address < 1 << 63
            if is_possible and not (self._untouchable and self._is_untouchable(address, size)):
                readable.append(place)
                left -= size
        if self._copies is None:
            for place in readable:
                found[place] = self.read(*wanted[place]) or b""
        else:
            for place, text in self._copies.pieces(wanted, readable):
                found[place] = text
        return found

    def _is_untouchable(self, address: int, size: int) -> bool:
        return any(start < address + size and address < end for start, end in self._untouchable)

    def unpack(self, layout: str, address: int) -> tuple[int, ...] | None:
        """Integers in the layout of `struct`, native byte order without padding."""
        text = self.read(address, struct.calcsize("=" + layout))
        return None if text is None else struct.unpack("=" + layout, text)


def _try_lock(proc: Proc, pid: int) -> None:
    """Wait, killably, until the lock of its mappings is free; a process without an environment has no lock."""
    descriptor = os.open(proc.path(pid, "environ"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.pread(descriptor, 1, 0)
    finally:
        os.close(descriptor)


class _Copies:
    """Copies of pieces of the memory of one process."""

    PIECES = struct.Struct("=QQQQ")
    """Two `struct iovec`, address and length: destination and source."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._call = _process_vm_readv()
        self._pieces = ctypes.create_string_buffer(self.PIECES.size // 2 * (1 + MOST_PIECES))
        self._to = ctypes.addressof(self._pieces)
        self._from = self._to + self.PIECES.size // 2
        self._room = ctypes.create_string_buffer(READ_LIMIT)

    def bytes_at(self, address: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of memory.

        Raises:
            OSError: there is nothing, or it cannot be read.
        """
        if size > len(self._room):
            self._room = ctypes.create_string_buffer(size)
        room = ctypes.addressof(self._room)
        self.PIECES.pack_into(self._pieces, 0, room, size, address, size)
        count = self._call(self._pid, self._to, 1, self._from, 1, 0)
        if count < 0:
            raise OSError(ctypes.get_errno(), "memory cannot be read")
        return ctypes.string_at(room, count)

    def pieces(self, wanted: Sequence[tuple[int, int]], places: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Those of the pieces at these places of the list that can be read in full, with their place."""
        begin = 0
        while begin < len(places):
            batch = places[begin : begin + MOST_PIECES]
            text = self._batch([word for place in batch for word in wanted[place]])
            at = 0
            for place in batch:
                end = at + wanted[place][1]
                if end > len(text):
                    # This one cannot be read; the call ended at it, or within it.
                    begin += 1
                    break
                yield place, text[at:end]
                at = end
                begin += 1

    def _batch(self, pieces: list[int]) -> bytes:
        """`pieces` alternates addresses and sizes; returns their contents concatenated, up to the first unreadable one."""
        size = sum(pieces[1::2])
        if size > len(self._room):
            self._room = ctypes.create_string_buffer(size)
        room = ctypes.addressof(self._room)
        count = len(pieces) // 2
        struct.pack_into(f"={2 * count + 2}Q", self._pieces, 0, room, size, *pieces)
        copied = self._call(self._pid, self._to, 1, self._from, count, 0)
        return ctypes.string_at(room, copied) if copied > 0 else b""


@lru_cache(maxsize=1)
def _process_vm_readv() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).process_vm_readv
    call.restype = ctypes.c_ssize_t
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
    return call


@may_hang
def may_be_read(proc: Proc, pid: int) -> None:
    """Return once the memory of a process can be read without waiting for the lock of its mappings.

    Raises:
        OSError: the process is gone, cannot be read, or one of its threads holds the lock.
    """
    _try_lock(proc, pid)


@may_hang
def word_at(proc: Proc, pid: int, address: int) -> int | None:
    """An int in the memory of a process; `None` if there is none.

    Raises:
        OSError: the process is gone, or its memory cannot be read.
    """
    with Memory(proc, pid) as memory:
        words = memory.unpack("i", address)
    return words[0] if words else None


class Touched:
    """Which pages of a process hold anything: proc_pid_pagemap(5), open for the length of a `with` block.

    Reading a page that was never touched makes the kernel set up page tables for it in the target, so such pages are
    not read. If the file cannot be read, every page counts as touched.
    """

    ENTRY = 8
    PAGES = 1 << 13
    """Entries per read: 32 MiB of memory."""

    def __init__(self, proc: Proc, pid: int) -> None:
        try:
            self._descriptor: int | None = os.open(proc.path(pid, "pagemap"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None

    def __enter__(self) -> Touched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def within(self, area: Area, until: float = math.inf) -> Iterator[tuple[int, int]]:
        """Ranges of addresses, first and one past the last, that hold something; in a mapping of terabytes, as ASAN
        creates, only those found before this time of time.monotonic().
        """
        step = self.PAGES * mmap.PAGESIZE
        for start in range(area.start, area.end, step):
            if time.monotonic() > until:
                return
            yield from self._of(start, min(start + step, area.end))

    def _of(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        entries = self._entries(start // mmap.PAGESIZE, (end - start) // mmap.PAGESIZE)
        if entries is None:
            yield start, end
            return
        # The highest bits of an entry: present in memory, and swapped out.
        for run in re.finditer(rb"[\x40-\xff]+", entries[self.ENTRY - 1 :: self.ENTRY]):
            yield start + run.start() * mmap.PAGESIZE, start + run.end() * mmap.PAGESIZE

    def _entries(self, first: int, count: int) -> bytes | None:
        if self._descriptor is None:
            return None
        try:
            found = os.pread(self._descriptor, count * self.ENTRY, first * self.ENTRY)
        except OSError:
            return None
        return found if len(found) == count * self.ENTRY else None
