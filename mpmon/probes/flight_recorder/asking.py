"""One HTTP request, bounded by a deadline and a number of bytes.

`http.client` limits the time of each call of the socket only: a header that comes byte by byte, or `100 Continue` again and
again, would keep it busy indefinitely. So here the connection itself has the deadline and the number of bytes that may still
come.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_HEADER = 1 << 16
"""Bytes before the body of an answer: its header, and those of answers that only announce it."""

CHUNK = 1 << 16


class Endless(Exception):
    """A server sends more than it may; the message says what."""


class Answer(NamedTuple):
    """What a server said."""

    status: int
    body: bytes
    is_here: bool
    """It runs on this machine."""


def ask(host: str, port: int, method: str, path: str, *, seconds: float, most: int) -> Answer:
    """The answer, of at most so many bytes. Neither redirections nor proxies are followed: only that host is asked.

    The look-up of a name has limits of its own (resolv.conf(5)), which count too but do not end with ours.

    Raises:
        TimeoutError: it did not come in time.
        Endless: it is longer.
        OSError: no connection, or it broke.
        http.client.HTTPException: that is no HTTP.
        ValueError: there can be no such host.
    """
    with contextlib.closing(http.client.HTTPConnection(host, port)) as connection:
        connection.sock = line = connected(host, port, time.monotonic() + seconds)
        # The end of the answer may close it.
        is_here = line.getsockname()[0] == line.getpeername()[0]
        connection.request(method, path)
        line.may_bring(MOST_HEADER, f"more than {MOST_HEADER >> 10} KiB without reaching the requested data")
        answer = connection.getresponse()
        too_much = f"more than {most >> 20} MiB"
        line.may_bring(most, too_much)
        body = bytearray()
        while chunk := answer.read1(CHUNK):
            body += chunk
            # Some of it may have come with the header.
            if len(body) > most:
                raise Endless(too_much)
        return Answer(answer.status, bytes(body), is_here)


class Line(socket.socket):
    """A connection with a deadline and a limit for what it brings."""

    ends_at = float("inf")
    _left = 0
    _too_much = ""

    def may_bring(self, count: int, too_much: str) -> None:
        """From now on so many bytes; how to tell that there are more."""
        self._left, self._too_much = count, too_much

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """All that reads from it comes by here: `socket.SocketIO`."""
        self.wait_no_longer()
        count = super().recv_into(buffer, nbytes, flags)
        self._left -= count
        if self._left < 0:
            raise Endless(self._too_much)
        return count

    def wait_no_longer(self) -> None:
        """The next call waits for what is left of the time.

        Raises:
            TimeoutError: nothing is.
        """
        left = self.ends_at - time.monotonic()
        if left <= 0.0:
            raise TimeoutError
        self.settimeout(left)


def connected(host: str, port: int, ends_at: float) -> Line:
    """A connection for so long, in seconds of `time.monotonic`.

    Raises:
        OSError: there is none, or not in time.
    """
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        line = Line(family, kind, protocol)
        line.ends_at = ends_at
        try:
            line.wait_no_longer()
            line.connect(address)
        except OSError as refused:
            line.close()
            problem = refused
        else:
            return line
    raise problem
