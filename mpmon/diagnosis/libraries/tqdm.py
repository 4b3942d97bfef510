"""tqdm: progress bars, and a thread that looks after them every ten seconds."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(
    waits=(waits(Wait.SERVICE, "tqdm/_monitor.py", "run", "the next look at its bars", called="wait"),),
    understood=("tqdm",),
)
