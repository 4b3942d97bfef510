"""Dask's distributed, which has its own thread executor."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(
    copies=(
        ("distributed/threadpoolexecutor.py", "concurrent/futures/thread.py"),
        ("distributed/_concurrent_futures_thread.py", "concurrent/futures/thread.py"),
    ),
)
