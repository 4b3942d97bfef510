"""The standard streams as mpmon needs them, however it was started.

- A glyph that the encoding lacks is written otherwise (`printable.in_ascii`), so that what is told is always told.
- A closed one of the three descriptors is taken, or the next file that is opened would get its number and be written to.
  Reading from it finds the end, writing fails.
- Output that cannot be written is a failure to be told in a sentence.  A complaint that cannot be is given up: nobody would
  hear of it, and no job is to suffer from it.
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
    """Standard output takes no more."""

    def __init__(self, problem: OSError) -> None:
        reason = "it is closed" if problem.errno == errno.EBADF else (problem.strerror or "unknown reason").lower()
        super().__init__(
            f"standard output cannot be written to: {reason}.", "Send it to a file or a terminal that takes it."
        )


class _Stream(io.FileIO):
    """One that is waited for when it is full, also where somebody else who has it open has set it not to block."""

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
    """Make the streams of this process so, where nobody has put others in their place."""
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
    """Nobody reads it any more, and what is left of it is not to be tried again at the end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        sys.stdout = None


def _take(number: int) -> None:
    """In ascending order, so that the lowest free number is this one."""
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
