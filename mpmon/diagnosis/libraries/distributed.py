"""Dask's distributed, which has its own thread executor."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, functions

LIBRARY = Library(
    shares=(
        functions("distributed/queues.py", "get"),
        functions("distributed/event.py", "wait"),
        functions("distributed/variable.py", "get"),
    ),
    copies=(
        ("distributed/threadpoolexecutor.py", "concurrent/futures/thread.py"),
        ("distributed/_concurrent_futures_thread.py", "concurrent/futures/thread.py"),
    ),
)
