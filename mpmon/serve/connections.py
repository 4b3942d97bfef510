"""The connections of a server: how many there may be, and for how long.

Whoever is on this machine can connect, with the secret or without, and say nothing for ever.  aiohttp has limits for what a
request may hold, but neither for how many connections there are nor, before version 3.14, for how long one may take to ask.
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
"""That are not windows. One more takes the place of the oldest."""

PATIENCE_S = 30.0
"""From when it was made until it has to be over, unless it has become a window: a page and its script through a slow tunnel."""

PAUSE_S = 0.5
"""After a failure to accept one."""


class Connections:
    """Accepts them, and lets go of those that lead to nothing."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """Those that are not windows, the oldest first."""

    async def accept(self, door: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        told = False
        while True:
            try:
                line, _ = await loop.sock_accept(door)
            except ConnectionError:
                continue
            except OSError as problem:
                # asyncio's own server has no pause where files run out, and a traceback each time.
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
        """This one is a window for that long."""
        self._forget(transport)
        try:
            yield
        finally:
            # A browser that reads no goodbye would keep it for ever.
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
    """Also what was still to be sent has been; `is_closing` says yes before that."""
    return transport.get_extra_info("socket").fileno() < 0
