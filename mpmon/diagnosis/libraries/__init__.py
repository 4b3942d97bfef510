"""What mpmon knows about libraries, one file each: rows, no code.

To add a library, put a file with a `LIBRARY` into this folder; `rows` defines its content.  All files of the folder are found
automatically; nothing else has to be changed.  Most libraries need no file: the shape of a stack shows that they call the
user's code, and which threads wait for it (`mpmon.diagnosis.stacks.shapes`).

The tables are built from all files, in the order of their names; no two files describe the same function.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import TypeVar

from mpmon.diagnosis.libraries.rows import Library

_T = TypeVar("_T")


def _found() -> tuple[Library, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "rows")
    return tuple(import_module(f"{__name__}.{name}").LIBRARY for name in names)


def _all(rows: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(row for of_one in rows for row in of_one)


LIBRARIES = _found()

WAITS = _all(library.waits for library in LIBRARIES)
AWAITS = _all(library.awaits for library in LIBRARIES)
POLLS = _all(library.polls for library in LIBRARIES)
RUNS = _all(library.runs for library in LIBRARIES)
UNDERSTOOD = _all(library.understood for library in LIBRARIES)
COPIES = _all(library.copies for library in LIBRARIES)
BUNDLES = _all(library.bundles for library in LIBRARIES)
WORKERS = _all(library.workers for library in LIBRARIES)
HELPERS = _all(library.helpers for library in LIBRARIES)
LAUNCHERS = _all(library.launchers for library in LIBRARIES)
LAUNCHES = _all(library.launches for library in LIBRARIES)
RANK_THREADS = frozenset(_all(library.rank_threads for library in LIBRARIES))
RANK_WORDS = _all(library.rank_words for library in LIBRARIES)
PHASES = _all(library.phases for library in LIBRARIES)
SERVES_ONE = _all(library.serves_one for library in LIBRARIES)
SHARES = _all(library.shares for library in LIBRARIES)
SERVES_ITSELF = _all(library.serves_itself for library in LIBRARIES)
TURNS = _all(library.turns for library in LIBRARIES)
ONLY_WAITS = _all(library.only_waits for library in LIBRARIES)
