"""Messages between mpmon and its helper: frames of a length and a pickle."""

from __future__ import annotations

import errno
import pickle
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

_LENGTH = struct.Struct("=Q")

MOST_BYTES = 1 << 30
"""Limit of one frame: the rows of one process are always smaller."""


class Unanswered(TimeoutError):
    """A call that has not returned; `strerror` says so in words."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.ETIMEDOUT, words)

    def __reduce__(self) -> tuple[type[Unanswered], tuple[str]]:
        return Unanswered, (self.strerror or "",)


class Question(NamedTuple):
    """A call to make."""

    number: int
    function: Callable[..., Any]
    given: tuple[Any, ...]
    named: dict[str, Any]


class WhereIs(NamedTuple):
    """Asks which thread makes the call with this number."""

    number: int


class Answer(NamedTuple):
    """The result of a call."""

    number: int
    result: Any
    raised: BaseException | None
    cpu_s: float
    """CPU time it took, seconds."""


class Place(NamedTuple):
    """The thread that makes a call; 0 once it has returned."""

    number: int
    tid: int


def packed(message: Question | WhereIs | Answer | Place) -> bytes:
    """One frame."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


class Unpacker:
    """Decodes messages from incoming bytes."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def feed(self, chunk: bytes) -> list[Any]:
        """The messages that are now complete.

        Raises:
            ValueError: the bytes are not frames.
        """
        self._pieces += chunk
        messages: list[Any] = []
        while len(self._pieces) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pieces)
            if length > MOST_BYTES:
                raise ValueError("no frame of the helper's")
            end = _LENGTH.size + length
            if len(self._pieces) < end:
                break
            messages.append(pickle.loads(self._pieces[_LENGTH.size : end]))  # noqa: S301  written by our own child
            del self._pieces[:end]
        return messages
