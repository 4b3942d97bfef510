"""The connections of a server: their number and duration are limited.

Any program on this machine can connect, with or without the secret, and stay silent forever. aiohttp limits the size of a
request, but not the number of connections nor, before version 3.14, the time a request may take.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from mpmon.errors import tell

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

MOST = 32
"""Limit for connections that are not windows. A further one replaces the oldest."""

PATIENCE_S = 30.0
"""How long a connection may last, unless it becomes a window: enough for a page and its script through a slow tunnel."""

PAUSE_S = 0.5
"""Pause after a failure to accept a connection."""


class Connections:
    """Accepts connections, and closes those that do not become windows."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """Connections that are not windows, oldest first."""

    async def accept(self, door: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        told = False
        while True:
            try:
                line, _ = await loop.sock_accept(door)
            except ConnectionError:
                continue
            except OSError as problem:
                # When descriptors run out, asyncio's own server retries without a pause, with a traceback each time.
                if not told:
                    tell(f"a connection cannot be accepted: {problem.strerror}. This is said once.")
                told = True
                self._drop_oldest()
                await asyncio.sleep(PAUSE_S)
                continue
            transport, _ = await loop.connect_accepted_socket(protocol, line)
            self._watch(transport)

    @contextlib.contextmanager
    def lasting(self, transport: asyncio.Transport) -> Generator[None]:
        """For the length of the block, this connection is a window."""
        self._forget(transport)
        try:
            yield
        finally:
            # A browser that does not read the close message would keep it forever.
            self._watch(transport)

    def _watch(self, transport: asyncio.Transport) -> None:
        for gone in [known for known in self._ends if _is_over(known)]:
            self._forget(gone)
        if len(self._ends) >= MOST:
            self._drop_oldest()
        self._ends[transport] = asyncio.get_running_loop().call_later(PATIENCE_S, self._drop, transport)

    def _drop_oldest(self) -> None:
        if self._ends:
            self._drop(next(iter(self._ends)))

    def _drop(self, transport: asyncio.Transport) -> None:
        self._forget(transport)
        transport.abort()

    def _forget(self, transport: asyncio.Transport) -> None:
        end = self._ends.pop(transport, None)
        if end:
            end.cancel()


def _is_over(transport: asyncio.Transport) -> bool:
    """Whether pending output was sent too; `is_closing` is true earlier."""
    return transport.get_extra_info("socket").fileno() < 0
