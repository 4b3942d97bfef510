"""A helper program: demangles C++ symbols, line by line.

It calls `__cxa_demangle` of libstdc++, which is there wherever torch is. Function names come from the job, and a symbol
of some hundred characters may expand to gigabytes or crash that function. So it runs in a separate process with small
memory and time limits, which ends with its parent.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable

from mpmon.start import end_with

LIMITS = {resource.RLIMIT_AS: 1 << 28, resource.RLIMIT_CPU: 1, resource.RLIMIT_CORE: 0}
"""Limits of this process (getrlimit(2)): bytes, seconds; no core file, which would contain the job's names."""

LONGEST = 1 << 13
"""Characters of an answer; the rest would be template parameters."""


def main(parent: int) -> None:
    """Answer each line with one line: the name, or nothing if there is none."""
    end_with(parent, b"mpmon-names")
    for limit, value in LIMITS.items():
        resource.setrlimit(limit, (value, value))
    demangled = demangle()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write((demangled(line.rstrip(b"\n")) if demangled else b"") + b"\n")
        # The next symbol may crash this process.
        sys.stdout.buffer.flush()


def demangle() -> Callable[[bytes], bytes] | None:
    """The function of libstdc++; `None` if it is not installed."""
    try:
        call = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)

    def demangled(name: bytes) -> bytes:
        found = call(name, None, None, None)
        if not found:
            return b""
        text = ctypes.string_at(found)[:LONGEST]
        free(found)
        return text

    return demangled


if __name__ == "__main__":
    main(int(sys.argv[1]))
