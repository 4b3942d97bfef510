"""What the C and C++ frames of a thread mean: which function of which library Python has called, and what that waits for.

Frames that were told, or derived and confirmed by a call, are facts (`NativeFrame.is_certain`).  One that was searched for, and
all that was reached through it, only suggests.  So does a sample of a thread that runs: in the next moment it is elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mpmon.diagnosis.merging import is_interpreter, is_loop, is_runtime, library
from mpmon.diagnosis.native_waits import NativeWait, Sort, helper_of, known, means, of_nameless, runs_through
from mpmon.model import NativeFrame, NativeStack

_BETWEEN = (
    r"pybind11::.*|nanobind::.*|boost::python::.*|__pyx_\w+|std::.*|c10::(impl|detail|Dispatcher|OperatorHandle)::.*"
    r"|c10::(Boxed|Kernel)\w+::.*|at::_ops::.*|torch::autograd::Variable(Hooks|Type)::.*|c10d::ops::.*"
)
"""Functions that only lead from Python to the one that was called."""

_BINDINGS = r"libffi\b|libtorch_python\b"
"""Files of such functions alone."""


_LEAVING = r"exit|__run_exit_handlers|_dl_fini|__cxa_finalize|Py_(FinalizeEx?|Exit)"


class Helps(msgspec.Struct, frozen=True, gc=False):
    """For whom a thread works."""

    library: str
    """As people call it: `OpenMP`."""
    certain: bool
    """No frame of the thread was searched for."""


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
    """No frame up to the one that tells was searched for, and the thread slept."""
    sampled: bool = False
    """The thread ran, and this is where it was in one moment."""
    leaves: bool = False
    """The program has come to its end: exit(3) runs what libraries have left to do."""
    helps: Helps | None = None
    """Of a thread that a library has started to work for others."""

    def is_surely(self, *sorts: Sort) -> bool:
        """It is known, and no guess, that it waits in one of these ways."""
        return self.certain and self.wait is not None and self.wait.sort in sorts

    @property
    def is_at_rest(self) -> bool:
        """A servant without work, or a helper that has come to where its library waits for the others of its team."""
        if self.wait is None or not self.certain:
            return False
        awaits_work = self.helps is not None and self.helps.library == self.wait.library
        return self.wait.sort is Sort.NOBODY or awaits_work

    @property
    def called(self) -> str:
        """`sem_wait of libc.so.6`; empty where the function has no name."""
        return f"{self.function} of {self.library}" if self.function else ""

    @property
    def lock_words(self) -> str:
        """What to call a native mutex that is waited for."""
        is_told = self.certain and self.function is not None and self.is_surely(Sort.LOCK)
        return f"a native mutex, in {self.called}" if is_told else "a native mutex"

    @property
    def words(self) -> str:
        """`sem_wait of libc.so.6 waits for …`; empty where that is not known, or is a lock of Python's, told by Python."""
        if self.wait is None or self.wait.sort is Sort.PYTHON_LOCK:
            return f"it runs, and was in {self.called} when it was sampled" if self.sampled and self.called else ""
        through = f", in {self.inner}," if self.inner and self.inner != self.function else ""
        text = f"{self.called or 'it'}{through} waits for {self.wait.waits_for}"
        return f"it runs, and when it was sampled {text}" if self.sampled else text


def native_fact(stack: NativeStack) -> NativeFact | None:
    """What the frames of a thread tell; `None` where there are none."""
    frames = list(_last_call(stack))
    if not frames:
        return None
    at, wait = _telling(frames)
    own = wait is not None and wait.sort in (Sort.PYTHON_LOCK, Sort.GIL)
    # Its own locks the interpreter takes by itself.
    called = None if own else _called(frames if len(frames) < len(stack.frames) else _own_code(frames))
    return NativeFact(
        function=called.name if called else None, library=library(called) if called else "", wait=wait,
        inner=frames[at].name if wait else None, certain=all(frame.is_certain for frame in frames[: at + 1]),
        sampled=stack.is_sample, leaves=any(map(_leaves, stack.frames)), helps=_helps(stack),
    )  # fmt: skip


def _leaves(frame: NativeFrame) -> bool:
    return frame.is_certain and re.fullmatch(_LEAVING, frame.name or "") is not None


def _helps(stack: NativeStack) -> Helps | None:
    """By the outermost function of a library's; the languages' own come before it."""
    first = next((frame for frame in reversed(stack.frames) if not is_runtime(frame)), None)
    name = _helper_of(first) if first else None
    if first is None or name is None:
        return None
    certain = all(frame.is_certain for frame in stack.frames)
    return Helps(library=name, certain=certain)


def _helper_of(frame: NativeFrame) -> str | None:
    """The library whose threads begin with this function."""
    if frame.name:
        return helper_of(frame.name)
    wait = of_nameless(library(frame))
    return wait.library if wait else None


def _own_code(frames: list[NativeFrame]) -> list[NativeFrame]:
    """Of a thread without Python: what is inside of how threads and programs begin, and end."""
    inside = next((at for at, frame in enumerate(frames) if _leaves(frame)), len(frames))
    end = inside
    while end and (is_runtime(frames[end - 1]) or _helper_of(frames[end - 1])):
        end -= 1
    return frames[: end or inside]


def _last_call(stack: NativeStack) -> Iterator[NativeFrame]:
    """The frames inside of the innermost Python code."""
    for frame in stack.frames:
        if is_loop(frame):
            return
        yield frame


def _telling(frames: list[NativeFrame]) -> tuple[int, NativeWait | None]:
    """The function that says the most of what is waited for, by its place."""
    for look_up in (_known, _means):
        for at, frame in enumerate(frames):
            wait = look_up(frame)
            if wait and not (wait.runs_others and _runs_others(wait, frames[:at], frame)):
                return at, wait
    return len(frames) - 1, None


def _known(frame: NativeFrame) -> NativeWait | None:
    return known(frame.name) if frame.name else of_nameless(library(frame))


def _means(frame: NativeFrame) -> NativeWait | None:
    return means(frame.name) if frame.name else None


def _runs_others(wait: NativeWait, inside: list[NativeFrame], frame: NativeFrame) -> bool:
    """Code of others was called by the function, and is where the thread waits: code of another library, unless the function
    runs it through one of its own.
    """
    if wait.runs:
        return any(runs_through(wait, row.name or "") for row in inside)
    return any(row.library != frame.library and not is_runtime(row) for row in inside)


def _called(frames: list[NativeFrame]) -> NativeFrame | None:
    """The function that Python has called: the outermost one that is neither the interpreter's nor leads there."""
    own = [frame for frame in frames if not is_interpreter(frame) and not re.match(_BINDINGS, library(frame))]
    return next((frame for frame in reversed(own) if frame.name and not re.fullmatch(_BETWEEN, frame.name)), None)
