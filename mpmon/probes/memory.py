"""Bounded reads of another process's memory through proc_pid_mem(5).

Reading needs the right to attach (PTRACE_MODE_ATTACH), but nothing is attached and nothing stops.
Every address comes from a register or from memory that may change meanwhile, so every read may fail.
"""

from __future__ import annotations

import os
import struct
from types import TracebackType

from mpmon.probes.files import Proc

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
