"""The web server: access control, and the answers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import html
import logging
import os
import secrets
import shlex
import signal
import traceback
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError
from textual_serve.server import Server, to_int

from mpmon.errors import tell
from mpmon.serve.connections import Connections
from mpmon.serve.viewer import Viewer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from aiohttp.typedefs import Handler

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Host names that a browser may use: those of its own machine, also through an ssh tunnel."""

MOST_VIEWERS = 4
"""Windows at a time: each has its own mpmon that watches the job."""

MOST_MESSAGE = 1 << 16
"""Bytes of one message from a browser: a key, or pasted text."""

USUAL_SIZE = {"width": 80, "height": 24}
"""Columns and rows of a window that does not give its size."""

HEARTBEAT_S, GOODBYE_S = 15.0, 2.0
"""Interval of websocket pings, and time for the closing handshake."""

PAGE = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))


class LocalServer(Server):
    """Shows a command's screen to every browser that knows the address."""

    def __init__(self, command: Sequence[str], title: str, *, is_there: Callable[[], bool]) -> None:
        """`is_there` returns whether the watched job still exists."""
        super().__init__(f"exec {shlex.join(command)}", title=title)
        self.secret = secrets.token_urlsafe(32)
        self._is_there = is_there
        self._viewers: set[Viewer] = set()
        self._connections = Connections()

    def answer(self, door: socket.socket) -> None:
        """Serve until Ctrl-C or SIGTERM."""
        asyncio.run(self._answer(door))

    async def _answer(self, door: socket.socket) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        loop.set_exception_handler(_tell_trouble)
        # Do not wait for a window whose browser has left: its process may no longer read input.
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=_logger(),
            shutdown_timeout=GOODBYE_S,
            handler_cancellation=True,
        )
        await runner.setup()
        protocol = cast("Callable[[], asyncio.Protocol]", runner.server)
        accepting = asyncio.create_task(self._connections.accept(door, protocol))
        accepting.add_done_callback(lambda _: ended.set())
        await ended.wait()
        accepting.cancel()
        await runner.cleanup()
        with contextlib.suppress(asyncio.CancelledError):
            await accepting

    def _application(self) -> web.Application:
        """Every path below `/SECRET/`."""
        app = web.Application(middlewares=[self._door])
        app.on_shutdown.append(self._end_viewers)
        app.on_cleanup.append(_close_what_is_left)
        app.add_routes(
            [
                web.get("/{secret}/", self._page),
                web.get("/{secret}/ws", self.handle_websocket),
                web.static(f"/{self.secret}/static", self.statics_path),
            ]
        )
        return app

    @web.middleware
    async def _door(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Allows requests that know the secret and come from this page.

        A page of another site can make a browser send requests here, but cannot hide its origin:
        `Origin` (RFC 6454), or `Host` if the site's name was made to resolve to this machine.
        """
        # The request target need not be a path: `*` of OPTIONS, `x:80` of CONNECT (RFC 9112, 3.2).
        secret = request.path.partition("/")[2].partition("/")[0]
        # Without its C extension, aiohttp passes on bytes that are not valid text.
        if not hmac.compare_digest(secret.encode(errors="surrogateescape"), self.secret.encode()):
            raise web.HTTPNotFound
        if _name_in(request.host) not in LOOPBACK:
            raise web.HTTPForbidden(text="mpmon answers to 127.0.0.1 and localhost only.\n")
        if request.headers.get("Origin", _own_origin(request)) != _own_origin(request):
            raise web.HTTPForbidden(text="mpmon answers to its own page only.\n")
        try:
            response = await handler(request)
        except ConnectionError:
            raise
        except OSError as problem:
            raise web.HTTPServiceUnavailable(text=f"mpmon cannot answer now: {problem.strerror}.\n") from problem
        if not response.prepared:
            response.headers.update(_headers(request))
        return response

    async def _page(self, request: web.Request) -> web.Response:
        address = f"ws://{request.host}/{self.secret}/ws"
        text = PAGE.substitute(title=html.escape(self.title), websocket=html.escape(address))
        return web.Response(text=text, content_type="text/html")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One window, as long as it is open."""
        if not self._is_there():
            raise web.HTTPGone(text="The job has ended.\n")
        if len(self._viewers) >= MOST_VIEWERS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_VIEWERS} windows are open: close one.\n")
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        websocket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, timeout=GOODBYE_S, max_msg_size=MOST_MESSAGE)
        viewer = Viewer(self.command, websocket, self.download_manager)
        self._viewers.add(viewer)
        with self._connections.lasting(transport):
            try:
                await websocket.prepare(request)
                await _close(websocket, transport, await _carry(request, websocket, viewer))
            finally:
                await viewer.stop()
                self._viewers.discard(viewer)
        return websocket

    async def _end_viewers(self, _app: web.Application) -> None:
        await asyncio.gather(*(viewer.stop() for viewer in self._viewers))


async def _carry(request: web.Request, websocket: web.WebSocketResponse, viewer: Viewer) -> WSCloseCode:
    """Carry messages in both directions until either side ends; returns why it ended."""
    try:
        drawing = await viewer.begin(
            *(to_int(request.query.get(name, ""), usual) for name, usual in USUAL_SIZE.items())
        )
    except OSError as problem:
        tell(f"a window cannot be opened: {problem.strerror}.")
        return WSCloseCode.TRY_AGAIN_LATER
    listening = asyncio.create_task(_listen(websocket, viewer))
    try:
        await asyncio.wait({listening, drawing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.cancel()
        await asyncio.wait({listening})
    return WSCloseCode.OK if listening.cancelled() else listening.result()


async def _listen(websocket: web.WebSocketResponse, viewer: Viewer) -> WSCloseCode:
    """Receive from the browser until it leaves."""
    try:
        async for message in websocket:
            if message.type is WSMsgType.TEXT:
                await viewer.hear(message.data)
    except ConnectionError:
        # It left during the answer.
        pass
    except ValueError:
        # Not a message of mpmon's page.
        return WSCloseCode.UNSUPPORTED_DATA
    return WSCloseCode.OK


async def _close(websocket: web.WebSocketResponse, transport: asyncio.Transport, code: WSCloseCode) -> None:
    """Close it with a closing handshake, if the browser reads."""
    try:
        await asyncio.wait_for(websocket.close(code=code), 2 * GOODBYE_S)
    except asyncio.TimeoutError:
        transport.abort()


async def _close_what_is_left(_app: web.Application) -> None:
    """Close the pipes of windows that were just closed: asyncio closes them in the garbage collector, which needs its loop."""
    gc.collect()
    await asyncio.sleep(0)


def _logger() -> logging.Logger:
    """Logs aiohttp's error about a failed request as one line."""
    logger = logging.getLogger("mpmon.serve")
    logger.propagate = False
    handler = _Lines()
    handler.addFilter(_is_ours)
    logger.addHandler(handler)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether the failure is mpmon's. Any program on this machine could fill the terminal with errors about invalid requests."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError))


class _Lines(logging.Handler):
    """Log lines without tracebacks, unless requested."""

    def emit(self, record: logging.LogRecord) -> None:
        """A line, with the exception in words."""
        problem = record.exc_info[1] if record.exc_info else None
        if problem and os.environ.get("MPMON_DEBUG"):
            traceback.print_exception(problem)
        tell(f"{record.getMessage()}: {problem!r}" if problem else record.getMessage())


def _tell_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report a failure outside of any request."""
    if os.environ.get("MPMON_DEBUG"):
        loop.default_exception_handler(context)
    else:
        tell(f"{context['message']}: {context.get('exception')!r}")


def _name_in(host: str) -> str | None:
    """The name in a `Host` header, without its port; `None` if missing or malformed."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _own_origin(request: web.Request) -> str:
    return f"http://{request.host}"


def _headers(request: web.Request) -> dict[str, str]:
    """The page loads nothing from elsewhere, sends no referrer, and cannot be framed."""
    return {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; connect-src 'self' ws://{request.host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
