"""What the C and C++ frames of a thread mean: which library function Python called, and what that waits for.

Frames known from registers or frame information, or derived from a prologue, are facts (`NativeFrame.is_certain`). A frame
found by scanning the stack, and everything reached through it, is only a hint. So is a sample of a running thread: a moment
later the thread is elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mpmon.diagnosis.stacks.merging import is_interpreter, is_loop, is_runtime, library
from mpmon.diagnosis.stacks.native_waits import NativeWait, Sort, helper_of, known, means, of_nameless, runs_through
from mpmon.model import NativeFrame, NativeStack

_BETWEEN = (
    r"pybind11::.*|nanobind::.*|boost::python::.*|__pyx_\w+|std::.*|c10::(impl|detail|Dispatcher|OperatorHandle)::.*"
    r"|c10::(Boxed|Kernel)\w+::.*|at::_ops::.*|torch::autograd::Variable(Hooks|Type)::.*|c10d::ops::.*"
)
"""Functions that only lead from Python to the called one."""

_BINDINGS = r"libffi\b|libtorch_python\b"
"""Files with only such functions."""


_LEAVING = r"exit|__run_exit_handlers|_dl_fini|__cxa_finalize|Py_(FinalizeEx?|Exit)"


class Helps(msgspec.Struct, frozen=True, gc=False):
    """The library a thread works for."""

    library: str
    """Its common name: `OpenMP`."""
    certain: bool
    """No frame of the thread was found by scanning the stack."""


class NativeFact(msgspec.Struct, frozen=True, gc=False):
    """Where a thread waits, in the innermost C code that Python called."""

    function: str | None
    """The function that was called, if it has a name: `c10d::ProcessGroupGloo::RecvWork::wait`."""
    library: str
    """The file it is in: `libtorch_cpu.so`; empty if nothing is known."""
    wait: NativeWait | None
    """What is known of the wait."""
    inner: str | None
    """The function that tells the wait: `gloo::transport::tcp::UnboundBuffer::waitRecv`."""
    certain: bool
    """No frame up to `inner` was found by scanning the stack, and the thread slept."""
    sampled: bool = False
    """The thread was running, and this is where one sample found it."""
    leaves: bool = False
    """The program is ending: exit(3) runs the libraries' remaining handlers."""
    helps: Helps | None = None
    """The library that started the thread as a helper."""

    def is_surely(self, *sorts: Sort) -> bool:
        """The thread certainly waits in one of these ways."""
        return self.certain and self.wait is not None and self.wait.sort in sorts

    @property
    def is_at_rest(self) -> bool:
        """A service thread without work, or a helper that has reached the point where its library's team waits."""
        if self.wait is None or not self.certain:
            return False
        awaits_work = self.helps is not None and self.helps.library == self.wait.library
        return self.wait.sort is Sort.NOBODY or awaits_work

    @property
    def called(self) -> str:
        """`sem_wait of libc.so.6`; empty if the function has no name."""
        return f"{self.function} of {self.library}" if self.function else ""

    @property
    def lock_words(self) -> str:
        """What to call a native mutex that is waited for."""
        is_told = self.certain and self.function is not None and self.is_surely(Sort.LOCK)
        return f"a native mutex, in {self.called}" if is_told else "a native mutex"

    @property
    def words(self) -> str:
        """`sem_wait of libc.so.6 waits for …`; empty if that is unknown, or a lock of Python's, which Python reports
        itself.
        """
        if self.wait is None or self.wait.sort is Sort.PYTHON_LOCK:
            return f"running; when sampled, it was in {self.called}" if self.sampled and self.called else ""
        through = f", in {self.inner}," if self.inner and self.inner != self.function else ""
        text = f"{self.called or 'it'}{through} waits for {self.wait.waits_for}"
        return f"running; when sampled, {text}" if self.sampled else text


def native_fact(stack: NativeStack) -> NativeFact | None:
    """What the frames of a thread tell; `None` if there are none."""
    frames = list(_last_call(stack))
    if not frames:
        return None
    at, wait = _telling(frames)
    own = wait is not None and wait.sort in (Sort.PYTHON_LOCK, Sort.GIL)
    # The interpreter takes its own locks by itself.
    called = None if own else _called(frames if len(frames) < len(stack.frames) else _own_code(frames))
    return NativeFact(
        function=called.name if called else None, library=library(called) if called else "", wait=wait,
        inner=frames[at].name if wait else None, certain=all(frame.is_certain for frame in frames[: at + 1]),
        sampled=stack.is_sample, leaves=any(map(_leaves, stack.frames)), helps=_helps(stack),
    )  # fmt: skip


def _leaves(frame: NativeFrame) -> bool:
    return frame.is_certain and re.fullmatch(_LEAVING, frame.name or "") is not None


def _helps(stack: NativeStack) -> Helps | None:
    """By the outermost function of a library; the language runtime's own come before it."""
    first = next((frame for frame in reversed(stack.frames) if not is_runtime(frame)), None)
    name = _helper_of(first) if first else None
    if first is None or name is None:
        return None
    certain = all(frame.is_certain for frame in stack.frames)
    return Helps(library=name, certain=certain)


def _helper_of(frame: NativeFrame) -> str | None:
    """The library whose threads start with this function."""
    if frame.name:
        return helper_of(frame.name)
    wait = of_nameless(library(frame))
    return wait.library if wait else None


def _own_code(frames: list[NativeFrame]) -> list[NativeFrame]:
    """In a thread without Python: the frames inside those that start and end programs and threads."""
    inside = next((at for at, frame in enumerate(frames) if _leaves(frame)), len(frames))
    end = inside
    while end and (is_runtime(frames[end - 1]) or _helper_of(frames[end - 1])):
        end -= 1
    return frames[: end or inside]


def _last_call(stack: NativeStack) -> Iterator[NativeFrame]:
    """The frames inside the innermost Python code."""
    for frame in stack.frames:
        if is_loop(frame):
            return
        yield frame


def _telling(frames: list[NativeFrame]) -> tuple[int, NativeWait | None]:
    """The most specific known waiting function: its position in the frames, and its meaning (`None` if there is none)."""
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
    """The function called foreign code, and the thread waits in that: code of another library, unless the function runs
    it through one of its own.
    """
    if wait.runs:
        return any(runs_through(wait, row.name or "") for row in inside)
    return any(row.library != frame.library and not is_runtime(row) for row in inside)


def _called(frames: list[NativeFrame]) -> NativeFrame | None:
    """The function that Python called: the outermost one that is neither the interpreter's nor on the way to it."""
    own = [frame for frame in frames if not is_interpreter(frame) and not re.match(_BINDINGS, library(frame))]
    return next((frame for frame in reversed(own) if frame.name and not re.fullmatch(_BETWEEN, frame.name)), None)
