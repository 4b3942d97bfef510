"""Bounded reads of another process's memory through proc_pid_mem(5).

Reading needs the right to attach (PTRACE_MODE_ATTACH), but nothing is attached and nothing stops.
Every address comes from a register or from memory that may change meanwhile, so every read may fail.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from types import TracebackType

from mpmon.probes.files import Proc
from mpmon.probes.maps import Area

READ_LIMIT = 1 << 16
"""The longest single read, bytes."""


class Memory:
    """The memory of one process, open for the length of a `with` block."""

    def __init__(self, proc: Proc, pid: int) -> None:
        """
        Raises:
            OSError: the process is gone, or its memory may not be read.
        """
        self._descriptor = os.open(proc.path(pid, "mem"), os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, address: int, size: int) -> bytes | None:
        """`size` bytes at `address`, `None` when they cannot be read in full."""
        if not 0 < address < 1 << 63 or not 0 < size <= READ_LIMIT:
            return None
        try:
            text = os.pread(self._descriptor, size, address)
        except OSError:
            return None
        return text if len(text) == size else None

    def read_some(self, address: int, size: int) -> bytes:
        """Up to `size` bytes at `address`; fewer, or none, where memory ends or may not be read."""
        try:
            return os.pread(self._descriptor, size, address)
        except OSError:
            return b""

    def unpack(self, layout: str, address: int) -> tuple[int, ...] | None:
        """Integers in the layout of `struct`, native byte order without padding."""
        text = self.read(address, struct.calcsize("=" + layout))
        return None if text is None else struct.unpack("=" + layout, text)


class Touched:
    """Which pages of a process hold anything: proc_pid_pagemap(5), open for the length of a `with` block.

    To read a page that was never touched makes the kernel set up page tables for it in the target, so such pages are left
    alone.  Where the file may not be read, every page counts as touched.
    """

    ENTRY = 8
    PAGES = 1 << 13
    """Entries of one read: 32 MiB of memory."""

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

    def within(self, area: Area) -> Iterator[tuple[int, int]]:
        """Ranges of addresses, first and the one after the last, that hold something."""
        step = self.PAGES * mmap.PAGESIZE
        for start in range(area.start, area.end, step):
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
