"""The process behind one window: its input from the browser, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from textual_serve.app_service import AppService

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from aiohttp import web
    from textual_serve.download_manager import DownloadManager

MOST_COLUMNS, MOST_ROWS = 500, 300
"""More than the largest monitors show with the smallest readable font: each cell costs time and memory."""

END_S = 5.0
"""Time for an orderly end, and for the forced one after it."""


class Viewer(AppService):
    """Draws for one window while it is open, never longer."""

    def __init__(self, command: str, websocket: web.WebSocketResponse, downloads: DownloadManager) -> None:
        super().__init__(
            command, write_bytes=websocket.send_bytes, write_str=websocket.send_str, close=_nothing,
            download_manager=downloads,
        )  # fmt: skip
        self._ending: asyncio.Task[None] | None = None

    async def begin(self, columns: int, rows: int) -> asyncio.Task[None]:
        """Start the process for a window of this size; returns what completes when it ends, or when its window is gone.

        Raises:
            OSError: no process can be started now.
        """
        await self._open_app_process(*_bounded(columns, rows))
        self._task = asyncio.create_task(self.run())
        return self._task

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
        """Carry what it draws."""
        # `stop` cancels it; so does textual-serve itself, by mistake, where all is over before it has begun to read.
        with contextlib.suppress(asyncio.CancelledError):
            await super().run()

    async def stop(self) -> None:
        """End the process: by request, and by force if it does not react, as when nothing reads its output.

        It is brought to its end also where whoever waits for it here is cancelled.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        process, drawing = self._process, self._task
        if process is None or drawing is None:
            return
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(super().stop(), END_S)
        finally:
            # It may have been waiting to tell the process, and a pipe has one reader.
            drawing.cancel()
            await asyncio.wait({drawing})
            if not await _has_ended(process):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await _has_ended(process)


async def _nothing() -> None:
    """A process that says it ends does end."""


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
