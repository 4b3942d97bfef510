"""Python and C frames in one list, in call order.

Each entry into the interpreter's loop has one C frame, and the Python frames that run in it follow one another up to
the one it was entered with; before Python 3.11, every Python frame enters it. So each run of Python frames takes the
place of one loop frame. If the numbers differ, the two stacks were read at different moments, or one of them is
incomplete: then they are shown apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mpmon.diagnosis.stacks.frames import own_frames
from mpmon.model import Frame, NativeFrame, NativeStack, Snapshot, Stack

LOOPS = frozenset({"_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"})
"""The interpreter's loop, now and before Python 3.6."""

_INTERPRETER = r"/(lib)?python\d[^/]*\Z|/lib-dynload/[^/]+\Z"
"""Files of Python itself: the program, libpython, and the standard library's C modules."""

_RUNTIME = r"/(ld-linux|lib(c|pthread|stdc\+\+|gcc_s))[.-][^/]*\Z"
"""The C and C++ runtime: what is called there is a system call, which the kernel names too."""


class Merged(NamedTuple):
    """Frames innermost first."""

    frames: tuple[Frame | NativeFrame, ...]
    agrees: bool
    """False if the Python frames are merely put before the C frames."""


def merged(native: Sequence[NativeFrame], python: Sequence[Frame]) -> Merged:
    """Merge both into one list."""
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
    """One thread whose C frames were read."""

    native: NativeStack
    python: Stack | None
    frames: tuple[Frame | NativeFrame, ...]
    """All, innermost first."""
    agrees: bool
    """False if the Python frames are merely put before the C frames."""

    @property
    def told(self) -> tuple[Frame | NativeFrame, ...]:
        """The frames worth showing: not the interpreter's own functions, nor what a fork copied of its parent. No C
        frames if only the interpreter and the C library are on the stack, because then the system call says as much.
        """
        shown = [frame for frame in self._own() if not (isinstance(frame, NativeFrame) and is_interpreter(frame))]
        if all(is_runtime(frame) for frame in shown if isinstance(frame, NativeFrame)):
            return tuple(frame for frame in shown if isinstance(frame, Frame))
        while isinstance(shown[-1], NativeFrame) and is_runtime(shown[-1]):
            # The start of a program or a thread.
            shown.pop()
        return tuple(shown)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the C frames."""
        notes = ["the thread is running: its C frames are a single sample"] if self.native.is_sample else []
        if not self.agrees:
            notes.append("Python and C frames could not be merged: the Python frames are listed first")
        if not self.native.is_complete:
            notes.append(f"the C frames end here: {self.native.why or self.native.end}")
        return tuple(notes)

    def _own(self) -> Iterator[Frame | NativeFrame]:
        own = list(own_frames(self.python)) if self.python else []
        is_forked = self.python is not None and 0 < len(own) < len(self.python.frames)
        for frame in self.frames:
            yield frame
            if is_forked and self.agrees and frame is own[-1]:
                return


def merged_thread(native: NativeStack, python: Stack | None) -> Thread:
    """All frames of a thread."""
    return Thread(native, python, *merged(native.frames, python.frames if python else ()))


def thread_of(snapshot: Snapshot, pid: int, tid: int | None) -> Thread | None:
    """The same by thread id; `None` if its C frames were not read."""
    native = next((row for row in snapshot.native_stacks if (row.pid, row.tid) == (pid, tid)), None)
    python = next((row for row in snapshot.stacks if (row.pid, row.tid) == (pid, tid)), None)
    return merged_thread(native, python) if native else None


def is_loop(frame: NativeFrame) -> bool:
    """The frame is the interpreter's evaluation loop, or a part that the compiler split off."""
    return frame.function is not None and frame.function.partition(".")[0] in LOOPS


def is_interpreter(frame: NativeFrame) -> bool:
    """It belongs to Python itself."""
    return re.search(_INTERPRETER, _path(frame)) is not None


def is_runtime(frame: NativeFrame) -> bool:
    """It belongs to the C or C++ runtime."""
    return re.search(_RUNTIME, _path(frame)) is not None


def library(frame: NativeFrame) -> str:
    """The file's name: `libtorch_cpu.so`; empty for code outside any file."""
    return _path(frame).rpartition("/")[2]


def native_text(frame: NativeFrame, longest: int) -> str:
    """`c10d::Work::wait (libtorch_cpu.so)`, or `libcuda.so.1+0x2a3ff` if the library has no names."""
    file = library(frame)
    guess = "" if frame.is_told else ", found by searching"
    if frame.name:
        name = frame.name if len(frame.name) <= longest else frame.name[: longest - 1] + "…"
        return f"{name} ({file}{guess})"
    return f"{file or 'code in no file'}+{frame.offset:#x}" + (f" ({guess[2:]})" if guess else "")


def _path(frame: NativeFrame) -> str:
    return (frame.library or "").removesuffix(" (deleted)")


def _runs(python: Iterable[Frame]) -> Iterator[list[Frame]]:
    run: list[Frame] = []
    for frame in python:
        run.append(frame)
        if frame.is_entry:
            yield run
            run = []
    if run:
        yield run
