"""The standard streams as mpmon needs them, however it was started.

- A character that the encoding lacks is replaced (`printable.in_ascii`), so that output never fails for its characters.
- If one of the three descriptors is closed, it is occupied; otherwise the next opened file would get its number and be
  written to. Reading from it returns end of file, writing fails.
- Output that cannot be written is a failure, reported in a sentence. An error message that cannot be written is dropped,
  because it must not harm a job.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys

from mpmon.errors import MpmonError
from mpmon.printable import ASCII, in_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from typing_extensions import Buffer

GLYPHS = "mpmon"
"""Name of the handler of encoding errors (codecs.register_error)."""

UTF8 = "utf-8"


class CannotWrite(MpmonError):
    """Standard output cannot be written."""

    def __init__(self, problem: OSError) -> None:
        reason = "it is closed" if problem.errno == errno.EBADF else (problem.strerror or "unknown reason").lower()
        super().__init__(
            f"standard output cannot be written to: {reason}.", "Send it to a file or a terminal that takes it."
        )


class _Stream(io.FileIO):
    """A stream that waits when full, even if another process that shares it has made it non-blocking."""

    def write(self, data: Buffer) -> int:
        while (count := super().write(data)) is None:  # pyright: ignore[reportUnnecessaryComparison]
            room = select.poll()
            room.register(self.fileno(), select.POLLOUT)
            room.poll()
        return count


class _Output(_Stream):
    def write(self, data: Buffer) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise CannotWrite(problem) from problem


class _Complaints(_Stream):
    def write(self, data: Buffer) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


def prepare() -> None:
    """Wrap the standard streams of this process, unless they were replaced."""
    codecs.register_error(GLYPHS, _written_otherwise)
    for number in range(3):
        _take(number)
    if sys.__stdin__ is None:  # it was closed
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding=UTF8)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if sys.stdout is sys.__stdout__:
        sys.stdout = _writer(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _writer(_Complaints(2, "w", closefd=False), sys.stderr)


def can_draw() -> bool:
    """The encoding of standard output has what the screen draws with."""
    try:
        "".join(ASCII).encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return True


def give_up_output() -> None:
    """The reader is gone: discard what is left, so that it is not tried again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        sys.stdout = None


def _take(number: int) -> None:
    """In ascending order, so that this is the lowest free number."""
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def _writer(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    encoding = before.encoding if before else UTF8
    made = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=GLYPHS)
    if isinstance(before, io.TextIOWrapper):
        made.reconfigure(line_buffering=before.line_buffering, write_through=before.write_through)
    return made


def _written_otherwise(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return in_ascii(problem.object[problem.start : problem.end]), problem.end
