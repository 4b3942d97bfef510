"""A program of ours: names as C++ compilers write them, to names as people do, line by line.

It calls `__cxa_demangle` of libstdc++, which is there wherever torch is.  What a job calls its functions is for the job to say,
and a name of some hundred letters may stand for one of gigabytes, or bring that function down.  So it is done in a
process of its own, which may take a little memory and time, and ends with whoever asked.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable

from mpmon.start import end_with

LIMITS = {resource.RLIMIT_AS: 1 << 28, resource.RLIMIT_CPU: 1, resource.RLIMIT_CORE: 0}
"""Of this process (getrlimit(2)): bytes, seconds; no file in which the job's names would be left."""

LONGEST = 1 << 13
"""Letters of an answer; the rest would be parameters of templates."""


def main(parent: int) -> None:
    """Answer to each line with one: the name, or nothing where there is none."""
    end_with(parent, b"mpmon-names")
    for limit, value in LIMITS.items():
        resource.setrlimit(limit, (value, value))
    demangled = demangle()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write((demangled(line.rstrip(b"\n")) if demangled else b"") + b"\n")
        # Whatever comes next may be the end of this.
        sys.stdout.buffer.flush()


def demangle() -> Callable[[bytes], bytes] | None:
    """The function of libstdc++; `None` where it is not installed."""
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
