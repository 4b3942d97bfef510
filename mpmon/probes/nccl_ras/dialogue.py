"""The dialogue with NCCL's RAS: four lines; the last one is only sent if all before were accepted."""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple, Protocol

from mpmon.probes.flight_recorder.asking import Endless, Line, connected

WITHIN_S = 20.0
"""For the whole dialogue."""

COLLECTS_S = 5
"""How long RAS itself waits for the processes of the job before it reports that they do not answer."""

MOST_BYTES = 64 << 20
"""Most bytes of an answer: some 300 bytes per rank of each communicator."""

_LINE = 4096
"""Most bytes of a line before the answer."""

_CHUNK = 1 << 16


class Address(NamedTuple):
    """Where RAS listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class NoAnswer(Exception):
    """Why there is no answer; the message continues a sentence about the address."""


class NotReached(NoAnswer):
    """There is no connection, so nothing was asked."""


def ask(address: Address) -> bytes:
    """The answer to VERBOSE STATUS, which should be JSON.

    Raises:
        NotReached: no connection.
        NoAnswer: not NCCL's RAS, an older one, or it did not come in time.
    """
    ends_at = time.monotonic() + WITHIN_S
    is_connected = False
    try:
        with contextlib.closing(connected(*address, ends_at)) as line, line.makefile("rb") as reader:
            is_connected = True
            line.may_bring(MOST_BYTES, f"sends more than {MOST_BYTES >> 20} MiB")
            return _status(line, reader)
    except TimeoutError as problem:
        raise NoAnswer(f"did not answer within {WITHIN_S:.0f} s") from problem
    except Endless as problem:
        raise NoAnswer(str(problem)) from problem
    except (OSError, UnicodeError) as problem:
        kind = NoAnswer if is_connected else NotReached
        raise kind(f"is not reached: {getattr(problem, 'strerror', None) or problem}") from problem


class _Reader(Protocol):
    def readline(self, size: int, /) -> bytes: ...
    def read1(self, size: int, /) -> bytes: ...


def _status(line: Line, reader: _Reader) -> bytes:
    protocol = _said(line, reader, "CLIENT PROTOCOL 2")
    if not protocol.startswith("SERVER PROTOCOL "):
        raise NoAnswer("is not the RAS of NCCL")
    if protocol != "SERVER PROTOCOL 2":
        raise NoAnswer("speaks another protocol of NCCL's RAS than 2, and is not asked")
    if _said(line, reader, f"TIMEOUT {COLLECTS_S}") != "OK":
        raise NoAnswer("does not take a time limit, and is not asked")
    if _said(line, reader, "SET FORMAT json") != "OK":
        raise NoAnswer("is of NCCL older than 2.28.7, whose RAS does not speak JSON")
    _say(line, "VERBOSE STATUS")
    body = bytearray()
    while chunk := reader.read1(_CHUNK):
        body += chunk
    return bytes(body)


def _said(line: Line, reader: _Reader, words: str) -> str:
    """Send a line; returns the line that answers it."""
    _say(line, words)
    answer = reader.readline(_LINE)
    if not answer.endswith(b"\n"):
        raise NoAnswer("is not the RAS of NCCL" if answer else "closed the connection")
    return answer.decode("ascii", "replace").strip()


def _say(line: Line, words: str) -> None:
    line.wait_no_longer()
    line.sendall(f"{words}\n".encode())
