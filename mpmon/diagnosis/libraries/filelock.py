"""filelock, which datasets, huggingface_hub and torch use; its folder `_core` came with 4.3."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(
    waits=(
        waits(Wait.FILE_LOCK, "filelock/_api.py", "acquire __enter__", "a file lock"),
        waits(Wait.FILE_LOCK, "filelock/_core/_lock.py", "acquire __enter__", "a file lock"),
    ),
    understood=("filelock",),
)
