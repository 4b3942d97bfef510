"""The web server: who may ask, and what is answered."""

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
"""Names under which a browser may have found the way: its own machine's, also through a tunnel of ssh."""

MOST_VIEWERS = 4
"""Windows at a time: each has an mpmon of its own that looks at the job."""

MOST_MESSAGE = 1 << 16
"""Bytes of what a browser says at once: a key, or what was pasted."""

USUAL_SIZE = {"width": 80, "height": 24}
"""Columns and rows of a window that does not say its own."""

HEARTBEAT_S, GOODBYE_S = 15.0, 2.0
"""How often a browser is asked whether it is there, and how long it may take to say goodbye."""

PAGE = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))


class LocalServer(Server):
    """Shows what a command draws to whoever knows the address."""

    def __init__(self, command: Sequence[str], title: str, *, is_there: Callable[[], bool]) -> None:
        """`is_there` tells whether what the command watches still exists."""
        super().__init__(f"exec {shlex.join(command)}", title=title)
        self.secret = secrets.token_urlsafe(32)
        self._is_there = is_there
        self._viewers: set[Viewer] = set()
        self._connections = Connections()

    def answer(self, door: socket.socket) -> None:
        """Whoever comes to this door, until Ctrl-C or SIGTERM."""
        asyncio.run(self._answer(door))

    async def _answer(self, door: socket.socket) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        loop.set_exception_handler(_tell_trouble)
        # A window that its browser has left is not waited for: it may be one whose process takes no more keys.
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
        """Lets in who knows the secret and comes from this very page.

        A page of another site can make a browser call here, but not hide where it comes from: `Origin` (RFC 6454), or
        `Host` where the site's name was made to point here.
        """
        # What is asked for need not be a path: `*` of OPTIONS, `x:80` of CONNECT (RFC 9112, 3.2).
        secret = request.path.partition("/")[2].partition("/")[0]
        # aiohttp without its C code lets bytes through that are no text.
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
    """What is said and drawn, until either side ends; why it ends."""
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
    """To the browser, until it leaves."""
    try:
        async for message in websocket:
            if message.type is WSMsgType.TEXT:
                await viewer.hear(message.data)
    except ConnectionError:
        # It left while it was answered.
        pass
    except ValueError:
        # No page of ours speaks like this.
        return WSCloseCode.UNSUPPORTED_DATA
    return WSCloseCode.OK


async def _close(websocket: web.WebSocketResponse, transport: asyncio.Transport, code: WSCloseCode) -> None:
    """With a goodbye, if the browser reads it."""
    try:
        await asyncio.wait_for(websocket.close(code=code), 2 * GOODBYE_S)
    except asyncio.TimeoutError:
        transport.abort()


async def _close_what_is_left(_app: web.Application) -> None:
    """The pipes of windows that were just closed: asyncio closes them when they are collected, which needs its loop."""
    gc.collect()
    await asyncio.sleep(0)


def _logger() -> logging.Logger:
    """What aiohttp has to say of a request that failed, as a line."""
    logger = logging.getLogger("mpmon.serve")
    logger.propagate = False
    handler = _Lines()
    handler.addFilter(_is_ours)
    logger.addHandler(handler)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether it failed here. Of requests that are none anybody on this machine could fill the terminal with lines."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError))


class _Lines(logging.Handler):
    """Without tracebacks, unless they are asked for."""

    def emit(self, record: logging.LogRecord) -> None:
        """A line, with the exception in words."""
        problem = record.exc_info[1] if record.exc_info else None
        if problem and os.environ.get("MPMON_DEBUG"):
            traceback.print_exception(problem)
        tell(f"{record.getMessage()}: {problem!r}" if problem else record.getMessage())


def _tell_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Of what failed beside all requests."""
    if os.environ.get("MPMON_DEBUG"):
        loop.default_exception_handler(context)
    else:
        tell(f"{context['message']}: {context.get('exception')!r}")


def _name_in(host: str) -> str | None:
    """The name of a `Host`, without its port; `None` where it has none or makes no sense."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _own_origin(request: web.Request) -> str:
    return f"http://{request.host}"


def _headers(request: web.Request) -> dict[str, str]:
    """The page takes nothing from elsewhere, tells nobody where it is, and lies in no other page."""
    return {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; connect-src 'self' ws://{request.host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
