"""How a scene says that its hang is established.

A named pipe instead of an inherited descriptor: it is open only while the one word is written, so the hanging processes
hold nothing that a job of the user would not hold, and it works for every start method of multiprocessing.
"""

from __future__ import annotations

import os
import sys

READY_VARIABLE = "MPMON_DEMO_READY"
"""Path of the named pipe, in the environment of the scene; without it the scene runs by itself."""
WITH_TORCH = b"with torch\n"
WITHOUT_TORCH = b"without torch\n"


def ready() -> None:
    """Tell the supervisor that the hang is established, and whether torch is used."""
    path = os.environ.get(READY_VARIABLE)
    if path is None:
        return
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, WITH_TORCH if "torch" in sys.modules else WITHOUT_TORCH)
    finally:
        os.close(pipe)
