"""What the C and C++ frames of a thread mean: which function of which library Python has called, and what that waits for.

Frames that were told, or derived and confirmed by a call, are facts (`NativeFrame.is_certain`).  One that was searched for, and
all that was reached through it, only suggests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mpmon.diagnosis.libraries.native_waits import NativeWait, Sort, known, means
from mpmon.diagnosis.merging import is_interpreter, is_loop, is_runtime, library
from mpmon.model import NativeFrame, NativeStack

_BETWEEN = (
    r"pybind11::.*|nanobind::.*|boost::python::.*|__pyx_\w+|std::.*|c10::(impl|detail|Dispatcher|OperatorHandle)::.*"
    r"|c10::(Boxed|Kernel)\w+::.*|at::_ops::.*|torch::autograd::Variable(Hooks|Type)::.*|c10d::ops::.*"
)
"""Functions that only lead from Python to the one that was called."""

_BINDINGS = r"libffi\b|libtorch_python\b"
"""Files of such functions alone."""


class NativeFact(msgspec.Struct, frozen=True, gc=False):
    """Where a thread waits, in the last code in C that Python has called."""

    function: str | None
    """The function that was called, as far as it has a name: `c10d::ProcessGroupGloo::RecvWork::wait`."""
    library: str
    """The file it is in: `libtorch_cpu.so`; empty where nothing is known."""
    wait: NativeWait | None
    """What is known of the wait."""
    inner: str | None
    """The function that tells: `gloo::transport::tcp::UnboundBuffer::waitRecv`."""
    certain: bool
    """No frame up to the one that tells was searched for."""

    def is_surely(self, *sorts: Sort) -> bool:
        """It is known, and no guess, that it waits in one of these ways."""
        return self.certain and self.wait is not None and self.wait.sort in sorts

    @property
    def called(self) -> str:
        """`sem_wait of libc.so.6`; empty where the function has no name."""
        return f"{self.function} of {self.library}" if self.function else ""

    @property
    def words(self) -> str:
        """`sem_wait of libc.so.6 waits for …`; empty where that is not known, or is a lock of Python's, told by Python."""
        if self.wait is None or self.wait.sort is Sort.PYTHON_LOCK:
            return ""
        through = f", in {self.inner}," if self.inner and self.inner != self.function else ""
        return f"{self.called or 'it'}{through} waits for {self.wait.waits_for}"


def native_fact(stack: NativeStack) -> NativeFact | None:
    """What the frames of a thread tell; `None` where there are none."""
    frames = list(_last_call(stack))
    if not frames:
        return None
    at, wait = _telling(frames)
    own = wait is not None and wait.sort in (Sort.PYTHON_LOCK, Sort.GIL)
    # Its own locks the interpreter takes by itself.
    called = None if own else _called(frames)
    return NativeFact(
        function=called.name if called else None, library=library(called) if called else "", wait=wait,
        inner=frames[at].name if wait else None, certain=all(frame.is_certain for frame in frames[: at + 1]),
    )  # fmt: skip


def _last_call(stack: NativeStack) -> Iterator[NativeFrame]:
    """The frames inside of the innermost Python code."""
    for frame in stack.frames:
        if is_loop(frame):
            return
        yield frame


def _telling(frames: list[NativeFrame]) -> tuple[int, NativeWait | None]:
    """The function that says the most of what is waited for, by its place."""
    for look_up in (known, means):
        for at, frame in enumerate(frames):
            wait = look_up(frame.name) if frame.name else None
            if wait and not (wait.runs_others and _runs_others(frames[:at], frame)):
                return at, wait
    return len(frames) - 1, None


def _runs_others(inside: list[NativeFrame], frame: NativeFrame) -> bool:
    """Code of another library was called by the function, and is where the thread waits."""
    return any(row.library != frame.library and not is_runtime(row) for row in inside)


def _called(frames: list[NativeFrame]) -> NativeFrame | None:
    """The function that Python has called: the outermost one that is neither the interpreter's nor leads there."""
    own = [frame for frame in frames if not is_interpreter(frame) and not re.match(_BINDINGS, library(frame))]
    return next((frame for frame in reversed(own) if frame.name and not re.fullmatch(_BETWEEN, frame.name)), None)
