"""The process behind one window: what the browser says to it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from textual_serve.app_service import AppService

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Awaitable, Callable

    from aiohttp import web
    from textual_serve.download_manager import DownloadManager

MOST_COLUMNS, MOST_ROWS = 500, 300
"""More than the largest monitors have, with the smallest letters anybody reads: each cell costs time and memory."""

END_S = 5.0
"""How long an end in peace may take, and the end after it."""


class Viewer(AppService):
    """Draws for one window as long as that is open, and never longer."""

    def __init__(
        self,
        command: str,
        websocket: web.WebSocketResponse,
        close: Callable[[], Awaitable[None]],
        downloads: DownloadManager,
    ) -> None:
        """`close` closes the window."""
        super().__init__(
            command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=close,
            download_manager=downloads,
        )
        self._ending: asyncio.Task[None] | None = None

    async def start(self, width: int, height: int) -> None:
        """Begin to draw for a window of this size.

        Raises:
            OSError: no process can be started now.
        """
        await super().start(*_bounded(width, height))

    async def hear(self, text: str) -> None:
        """One message of the browser, as textual.js of textual-serve makes them.

        Raises:
            ValueError: it is none.
        """
        match _parsed(text):
            case ["stdin", str(keys)]:
                await self.send_bytes(keys.encode())
            case ["resize", {"width": int(width), "height": int(height)}]:
                await self.set_terminal_size(*_bounded(width, height))
            case ["ping", answer]:
                await self.remote_write_str(json.dumps(["pong", answer]))
            case ["blur", *_]:
                await self.blur()
            case ["focus", *_]:
                await self.focus()
            case _:
                raise ValueError("no message of a window")

    async def run(self) -> None:
        """Carry what it draws, until it ends; then there is nothing more to see."""
        try:
            # `stop` cancels it; so does textual-serve itself, by mistake, where all is over before it has begun to read.
            with contextlib.suppress(asyncio.CancelledError):
                await super().run()
        finally:
            await self.remote_close()

    async def stop(self) -> None:
        """End the process: by its own way, and by force where it does not take that, as when nobody reads what it draws.

        It is brought to its end also where whoever waits for it here is cancelled.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(super().stop(), END_S)
        finally:
            if not await _has_ended(process):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await _has_ended(process)


async def _has_ended(process: Process) -> bool:
    """Within some time. What it has still to say is read, for asyncio takes it for running until then."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.communicate(), END_S)
    return process.returncode is not None


def _bounded(columns: int, rows: int) -> tuple[int, int]:
    return min(max(columns, 1), MOST_COLUMNS), min(max(rows, 1), MOST_ROWS)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError as problem:
        raise ValueError("nested too deep") from problem
