"""What a process has open: asked before and after, it tells what was left open, whatever else was closed meanwhile.

How many there are does not tell it: what earlier tests have left to the garbage collector is closed at any moment.
"""

from __future__ import annotations

import contextlib
import os


def own_descriptors() -> set[tuple[str, str]]:
    """Each with what it leads to; one that is closed meanwhile, as that of the list itself, is none."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found
