"""Packages that are copies of parts of the standard library, function for function.

`multiprocess` (of dill, which datasets and pathos use), `billiard` (of Celery) and `loky` (of joblib) are multiprocessing and
its executor with another pickle or another way to start; Dask has an executor of its own.
"""

from __future__ import annotations

from functools import lru_cache

_PACKAGES = ("/site-packages/", "/dist-packages/")

_STANDARD = "/lib/python3.0/"
"""Begins the name of an original, as a file of the standard library of some Python."""

_COPIES = (
    ("multiprocess/", "multiprocessing/"),
    ("billiard/", "multiprocessing/"),
    ("loky/process_executor.py", "concurrent/futures/process.py"),
    ("loky/backend/", "multiprocessing/"),
    ("distributed/threadpoolexecutor.py", "concurrent/futures/thread.py"),
    ("distributed/_concurrent_futures_thread.py", "concurrent/futures/thread.py"),
)
"""What a file's path begins with below its packages, and what it is a copy of."""

_BUNDLES = ("joblib/externals/",)
"""Where packages carry others."""


@lru_cache(maxsize=4096)
def known_as(file: str) -> str:
    """The path of the original of a file, as the standard library has it; of all others their own."""
    for folder in _PACKAGES:
        _, found, name = file.rpartition(folder)
        if found:
            for bundle in _BUNDLES:
                name = name.removeprefix(bundle)
            for copy, original in _COPIES:
                if name.startswith(copy):
                    return f"{_STANDARD}{original}{name[len(copy) :]}"
    return file
