"""Keeping the memory of a long-running program small, by settings of the C library.

glibc takes a block from the heap as soon as it has seen one of that size freed (mallopt(3), "dynamic mmap threshold"), and
each thread gets a heap of its own.  Then freed pictures leave gaps between live blocks, and resident memory grows although
nothing is kept (seen with a full history: 0.3 MiB a minute at five looks a second, 0.09 with this).
"""

from __future__ import annotations

import importlib
import sys

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""Parameters of mallopt(3), malloc.h."""

OWN_MAPPING = 1 << 15
"""Blocks of this size or larger get their own mapping, which is returned to the kernel when they are freed."""


def give_back() -> None:
    """From now on large freed blocks go back to the kernel, and threads share one heap; only glibc supports this."""
    from ctypes import CDLL, c_int

    ask = getattr(CDLL(None), "mallopt", None)
    if ask:
        for parameter, value in ((M_MMAP_THRESHOLD, OWN_MAPPING), (M_ARENA_MAX, 1)):
            ask(c_int(parameter), c_int(value))


def import_asyncio_without_tls() -> None:
    """Import asyncio as in a Python built without `ssl`: OpenSSL takes 4 MiB, and a screen opens no connections."""
    if sys.modules.keys().isdisjoint(("asyncio", "ssl")):
        sys.modules["ssl"] = None  # type: ignore[assignment]  as the import system has it for what is not to be found
        try:
            importlib.import_module("asyncio")
        finally:
            del sys.modules["ssl"]
