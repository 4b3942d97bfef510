"""The web server: who may ask, and what is answered."""

from __future__ import annotations

import asyncio
import gc
import hmac
import html
import secrets
import shlex
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp.typedefs import Handler

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names under which a browser may have found the way: its own machine's, also through a tunnel of ssh."""

MOST_VIEWERS = 4
"""Windows at a time: each has an mpmon of its own that looks at the job."""

PAGE = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))


class LocalServer(Server):
    """Shows what a command draws to whoever knows the address."""

    def __init__(self, command: Sequence[str], title: str, *, is_there: Callable[[], bool]) -> None:
        """`is_there` tells whether what the command watches still exists."""
        super().__init__(f"exec {shlex.join(command)}", title=title)
        self.secret = secrets.token_urlsafe(32)
        self._is_there = is_there
        self._viewers = 0

    async def application(self) -> web.Application:
        """For aiohttp to run; every path below `/SECRET/`."""
        app = web.Application(middlewares=[self._door])
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
        secret = request.path.split("/")[1]
        if not hmac.compare_digest(secret.encode(), self.secret.encode()):
            raise web.HTTPNotFound
        if urlsplit(f"//{request.host}").hostname not in LOOPBACK:
            raise web.HTTPForbidden(text="mpmon answers to 127.0.0.1 and localhost only.\n")
        if request.headers.get("Origin", _own_origin(request)) != _own_origin(request):
            raise web.HTTPForbidden(text="mpmon answers to its own page only.\n")
        response = await handler(request)
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
        if self._viewers >= MOST_VIEWERS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_VIEWERS} windows are open: close one.\n")
        self._viewers += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._viewers -= 1


async def _close_what_is_left(_app: web.Application) -> None:
    """The pipes of windows that were just closed: asyncio closes them when they are collected, which needs its loop."""
    gc.collect()
    await asyncio.sleep(0)


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
