"""What is told of one thread."""

from __future__ import annotations

from mpmon.model import Moment, Row

START = "start"
"""All frames are there, up to the one in which the thread began."""
LOST = "lost"
"""From there on nothing is known."""
BOUNDED = "bounded"
"""There are more frames, or it would have taken more work, than is allowed."""
RUNNING = "running"
"""It was on a CPU."""
MOVED = "moved"
"""It ran while it was read, twice."""
REFUSED = "refused"
"""It may not be read, or is of a kind that is not understood."""

REGISTERS = "registers"
"""The innermost frame: the kernel tells where the thread stands."""
FRAME_INFORMATION = "frame information"
"""The frame below told, and nothing was assumed."""
PROLOGUE = "prologue"
"""A register was not known: how deep the frame below is was read from the code with which it begins."""
FRAME_POINTER = "frame pointer"
"""The function below has no frame information, and its frame pointer led to the call."""
SEARCH = "search"
"""The nearest word on the stack that is a return address of a call that may have led there."""

NAMES_IT, JUMPS_TO_IT, MAY_BE = 3, 2, 1
"""What proves a frame that was not told: the call before its return address names the function below; it calls one that
jumps to the function below; it is a call through a register or memory."""


class NativeFrame(Row, frozen=True, kw_only=True):
    """One call of a function of C or C++."""

    library: str | None = None
    """The file as the process has mapped it; `None` for code that lies in no file."""
    build_id: str | None = None
    offset: int
    """Where it stands, as the file counts (for addr2line(1)); the address itself where there is no file."""
    function: str | None = None
    """The symbol; `None` where the file does not name the function."""
    name: str | None = None
    """The same for people: demangled, without parameters and template arguments."""
    inside: int | None = None
    """How many bytes behind the beginning of the function it stands; `None` where that is not known."""
    how: str
    """How it was found: one of the constants above."""
    proof: int | None = None
    """Of one that was not told: `NAMES_IT`, `JUMPS_TO_IT` or `MAY_BE`."""

    @property
    def is_certain(self) -> bool:
        """A diagnosis may rest on it: it was told, or derived and confirmed by the call."""
        return self.how in (REGISTERS, FRAME_INFORMATION, PROLOGUE)


class NativeStack(Row, frozen=True, kw_only=True):
    """Frames of C and C++ of one thread, innermost first, read while it slept."""

    pid: int
    tid: int
    taken_at: Moment
    frames: tuple[NativeFrame, ...] = ()
    end: str
    """Why there are no more: one of the constants above."""
    why: str | None = None
    """More of that, in words that go on after it."""
    seconds: float = 0.0
    """What it took of mpmon's time."""

    @property
    def is_complete(self) -> bool:
        """All frames are there."""
        return self.end == START
