"""One HTTP request, bounded by a deadline and a number of bytes.

`http.client` limits only the time of each socket call: a header that arrives byte by byte, or `100 Continue` again and
again, would keep it busy indefinitely. So here the connection itself has the deadline and the number of bytes that may still
arrive.
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
"""Bytes before the body of an answer: its header, and those of interim answers (`100 Continue`)."""

CHUNK = 1 << 16


class Endless(Exception):
    """A server sent more than allowed; the message says what."""


class Answer(NamedTuple):
    """The answer of a server."""

    status: int
    body: bytes
    is_here: bool
    """The server runs on this machine."""


def ask(host: str, port: int, method: str, path: str, *, seconds: float, most: int) -> Answer:
    """The answer, of at most `most` bytes. Neither redirections nor proxies are followed: only that host is asked.

    Name resolution has its own time limits (resolv.conf(5)): it counts towards `seconds`, but is not cut off by them.

    Raises:
        TimeoutError: it did not arrive in time.
        Endless: it is longer.
        OSError: no connection, or it broke.
        http.client.HTTPException: the answer is not HTTP.
        ValueError: the host name is invalid.
    """
    with contextlib.closing(http.client.HTTPConnection(host, port)) as connection:
        connection.sock = line = connected(host, port, time.monotonic() + seconds)
        # Asked now, because the end of the answer may close the socket.
        is_here = line.getsockname()[0] == line.getpeername()[0]
        connection.request(method, path)
        line.may_bring(MOST_HEADER, f"more than {MOST_HEADER >> 10} KiB without reaching the requested data")
        answer = connection.getresponse()
        too_much = f"more than {most >> 20} MiB"
        line.may_bring(most, too_much)
        body = bytearray()
        while chunk := answer.read1(CHUNK):
            body += chunk
            # Some of the body may have arrived with the header.
            if len(body) > most:
                raise Endless(too_much)
        return Answer(answer.status, bytes(body), is_here)


class Line(socket.socket):
    """A connection with a deadline and a limit on the bytes received."""

    ends_at = float("inf")
    _left = 0
    _too_much = ""

    def may_bring(self, count: int, too_much: str) -> None:
        """Allow `count` bytes from now on; `too_much` is the message of `Endless` if there are more."""
        self._left, self._too_much = count, too_much

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """All reads go through here: `socket.SocketIO`."""
        self.wait_no_longer()
        count = super().recv_into(buffer, nbytes, flags)
        self._left -= count
        if self._left < 0:
            raise Endless(self._too_much)
        return count

    def wait_no_longer(self) -> None:
        """Limit the next call to the time that is left.

        Raises:
            TimeoutError: no time is left.
        """
        left = self.ends_at - time.monotonic()
        if left <= 0.0:
            raise TimeoutError
        self.settimeout(left)


def connected(host: str, port: int, ends_at: float) -> Line:
    """A connection with the deadline `ends_at`, in seconds of `time.monotonic`.

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
