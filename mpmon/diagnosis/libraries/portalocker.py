"""portalocker and fasteners: file locks that are tried again until a time is over."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(
    waits=(
        waits(Wait.FILE_LOCK, "portalocker/utils.py", "acquire __enter__", "a file lock"),
        waits(
            Wait.FILE_LOCK, "fasteners/process_lock.py", "acquire acquire_read_lock acquire_write_lock", "a file lock"
        ),
    ),
    understood=("portalocker", "fasteners"),
)
