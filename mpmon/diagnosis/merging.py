"""Frames of Python and of C in one list, in the order in which they called each other.

Each time the interpreter's loop is entered there is one frame of it in C, and the Python frames that run in it follow one
another up to the one with which it was entered; before Python 3.11 that is each.  So the runs of Python frames stand where
the loops stand.  If there are not as many of the one as of the other, the two were not read of the same moment, or one of them
is not whole: then they are shown apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mpmon.model import Frame, NativeFrame, NativeStack, Snapshot, Stack

LOOPS = frozenset({"_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"})
"""The interpreter's loop, now and before Python 3.6."""


class Merged(NamedTuple):
    """Frames innermost first."""

    frames: tuple[Frame | NativeFrame, ...]
    agrees: bool
    """False where the Python frames just stand before the others."""


def merged(native: Sequence[NativeFrame], python: Sequence[Frame]) -> Merged:
    """Both in one list."""
    runs = list(_runs(python))
    if sum(map(is_loop, native)) != len(runs):
        return Merged((*python, *native), agrees=False)
    found: list[Frame | NativeFrame] = []
    for frame in native:
        if is_loop(frame):
            found += runs.pop(0)
        else:
            found.append(frame)
    return Merged(tuple(found), agrees=True)


class Thread(NamedTuple):
    """One thread whose frames of C were read."""

    native: NativeStack
    python: Stack | None
    frames: tuple[Frame | NativeFrame, ...]
    """All, innermost first."""
    agrees: bool
    """False where those of Python just stand before the others."""


def merged_thread(snapshot: Snapshot, pid: int, tid: int | None) -> Thread | None:
    """All frames of a thread; `None` where those of C were not read."""
    native = next((row for row in snapshot.native_stacks if (row.pid, row.tid) == (pid, tid)), None)
    if native is None:
        return None
    python = next((row for row in snapshot.stacks if (row.pid, row.tid) == (pid, tid)), None)
    frames = python.frames if python else ()
    return Thread(native, python, *merged(native.frames, frames))


def is_loop(frame: NativeFrame) -> bool:
    """It is the interpreter's loop, or a part of it that the compiler moved away."""
    return frame.function is not None and frame.function.partition(".")[0] in LOOPS


def _runs(python: Iterable[Frame]) -> Iterator[list[Frame]]:
    run: list[Frame] = []
    for frame in python:
        run.append(frame)
        if frame.is_entry:
            yield run
            run = []
    if run:
        yield run
