"""Where the text goes: to a file for node_exporter, or to HTTP clients of a port."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from mpmon.errors import UsageError
from mpmon.probes.own import Silent, asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SUFFIX = ".prom"
"""The only suffix that node_exporter's textfile collector reads."""

PATHS = frozenset({"/", "/metrics"})

PATIENCE_S = 10.0
"""A connection that is silent for this long is closed."""

MOST = 8
"""Connections at a time; the oldest is closed for a new one."""


class TextFile:
    """A file that is always complete: each text is written next to it and replaces it (rename(2)).

    Others may read it (mode 644, as far as the umask allows): of the job it contains only what labels show.
    """

    def __init__(self, path: str, tell: Callable[[str], None]) -> None:
        """
        Raises:
            UsageError: its name does not suit node_exporter, or there is no such folder.
        """
        self._path = os.path.abspath(path)
        self._tell = tell
        self._problem: str | None = None
        if not path.endswith(SUFFIX):
            raise UsageError(f"{path} does not end in {SUFFIX}.", "node_exporter reads no other files of its folder.")
        folder = os.path.dirname(self._path)
        if not asked([folder], os.path.isdir, folder):
            raise UsageError(f"there is no folder {folder}.", "Make it, or name a file in another one.")

    def put(self, text: bytes) -> None:
        """Write the new text; a failure is reported once, and the next text is tried again."""
        try:
            asked([self._path], replace, self._path, text)
        except (OSError, Silent) as problem:
            said = problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
            if said != self._problem:
                self._tell(f"{self._path} is not written: {said}")
            self._problem = said
        else:
            self._problem = None

    def close(self) -> None:
        """Remove the file: one that stays would report outdated values forever."""
        with contextlib.suppress(OSError, Silent):
            asked([self._path], os.unlink, self._path)


def replace(path: str, text: bytes) -> None:
    """Replace a file atomically.

    Raises:
        OSError: as open(2), write(2) and rename(2).
    """
    beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.rename(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def address(text: str) -> tuple[str, int]:
    """`9877`, `127.0.0.1:9877`, `[::1]:9877`: without a host, only this machine can connect.

    Raises:
        ValueError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(text)
    named = (
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]")) if host else ipaddress.ip_address("127.0.0.1")
    )
    return str(named), int(port)


def is_own(host: str) -> bool:
    """Whether an address or name refers to this machine only."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return name == "localhost"


class Server:
    """Answers with the last text, in threads of its own."""

    def __init__(self, host: str, port: int, content_type: str) -> None:
        """
        Raises:
            UsageError: the address or port cannot be used.
        """
        self.text = b""
        owner = self

        class Answer(BaseHTTPRequestHandler):
            timeout = PATIENCE_S

            def do_GET(self) -> None:
                """Send the text, if the request names this machine: a web page elsewhere may use another name for it."""
                if is_own(host) and not is_own(self.headers.get("Host", "localhost")):
                    self.send_error(403)
                elif self.path.partition("?")[0] not in PATHS:
                    self.send_error(404)
                else:
                    self._send(owner.text)

            def _send(self, text: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Requests are not logged."""

        try:
            self._door = _Door(host, port, Answer)
        except OSError as problem:
            raise UsageError(
                f"cannot listen on {host} port {port}: {problem.strerror}.", "Give another one to --listen."
            ) from problem
        self.port: int = self._door.server_address[1]
        self.host = host
        threading.Thread(target=self._door.serve_forever, name="mpmon export", daemon=True).start()

    def put(self, text: bytes) -> None:
        """The new text."""
        self.text = text

    def close(self) -> None:
        """Stop answering."""
        self._door.shutdown()
        self._door.server_close()


class _Door(ThreadingHTTPServer):
    """A server with a bounded number of connections."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, answer: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._open: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        super().__init__((host, port), answer)

    def server_bind(self) -> None:
        """Without looking up this machine's name, which may block in a name server."""
        TCPServer.server_bind(self)

    def process_request(self, request: object, client_address: object) -> None:
        """A new connection."""
        assert isinstance(request, socket.socket)  # noqa: S101  of a server for streams
        with self._lock:
            if len(self._open) >= MOST:
                oldest = self._open.pop(next(iter(self._open)))
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A connection is over."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)  # pyright: ignore[reportArgumentType]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that disconnects is not an error."""
