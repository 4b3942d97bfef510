"""What a browser, or anybody on this machine, may ask of `mpmon serve`: so much of everything and no more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import NEVER_S
from tests.serving import Served, aiohttp, hear, run, session, status, until, upgrade
from tests.session.hanging import record
from tests.test_cli import ENVIRONMENT

connections = pytest.importorskip("mpmon.serve.connections")
viewer = pytest.importorskip("mpmon.serve.viewer")
downloads = pytest.importorskip("textual_serve.download_manager")

MOST = connections.MOST


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        running = Served("--replay", str(record(Path(folder) / "hang.jsonl.gz")))
        yield running
        status, said = running.end()
        assert status == 0
        assert len(said.splitlines()) == 1


# Windows


def places(drawn: str) -> Iterator[tuple[int, int]]:
    """Row and column of each place that a cursor went to."""
    yield from ((int(row), int(column)) for row, column in re.findall(r"\x1b\[(\d+);(\d+)H", drawn))


HUGE = 100_000

SAYS_ITS_SIZE = r"printf '__GANGLION__\nD\000\000\000\010%8s' ${COLUMNS}x$ROWS"
"""A program that draws these eight letters, as textual-serve has it packed."""


class Drawn:
    """The window of such a program."""

    def __init__(self) -> None:
        self.text = ""
        self.began = asyncio.Event()

    async def send_bytes(self, letters: bytes) -> None:
        self.text += letters.decode()
        self.began.set()

    send_str = send_bytes


@pytest.mark.parametrize("at", ["first", "later"])
def test_no_window_is_larger_than_any_monitor(served: Served, at: str) -> None:
    async def look() -> None:
        address = served.socket
        if at == "first":
            address = served.socket.partition("?")[0] + f"?width={HUGE}&height={HUGE}"
        async with session() as made, made.ws_connect(address, origin=served.origin, max_msg_size=0) as socket:
            if at == "later":
                assert max(places(await hear(socket, "hang.jsonl.gz")))[0] <= 24
                await socket.send_json(["resize", {"width": HUGE, "height": HUGE}])
            found = {(0, 0)}
            while max(found)[0] < 300:
                found |= set(places((await socket.receive(timeout=NEVER_S)).data.decode()))
            await socket.send_json(["stdin", "h"])
            found |= set(places(await hear(socket, "quit mpmon")))
            assert max(found)[0] == 300
            assert max(column for _, column in found) <= 500
        await until(lambda: served.screens() == [])

    run(look())


def test_no_key_says_how_large_a_window_is(served: Served) -> None:
    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "hang.jsonl.gz")
            await socket.send_json(["stdin", f"\x1b[48;{HUGE};{HUGE};{HUGE};{HUGE}t"])
            await socket.send_json(["stdin", "h"])
            assert max(places(await hear(socket, "quit mpmon")))[0] <= 24

    run(look())


@pytest.mark.parametrize("size", [("-5", "0"), ("x", ""), ("nan", "1e9"), ("9" * 4000, "24"), ("1", "1")])
def test_a_window_of_an_odd_size_is_opened(served: Served, size: tuple[str, str]) -> None:
    async def look() -> None:
        address = served.socket.partition("?")[0] + "?width={}&height={}".format(*size)
        async with session() as made, made.ws_connect(address, origin=served.origin) as socket:
            await hear(socket, "\x1b[?1049h")

    run(look())


@pytest.mark.parametrize(
    ("size", "nearest"), [((80, 24), (80, 24)), ((-5, 0), (1, 1)), ((501, 301), (500, 300)), ((10**4000, 1), (500, 1))]
)
def test_a_size_is_the_nearest_that_a_window_may_have(size: tuple[int, int], nearest: tuple[int, int]) -> None:
    async def look() -> None:
        drawn = Drawn()
        told = viewer.Viewer(SAYS_ITS_SIZE, drawn, downloads.DownloadManager())
        await (await told.begin(*size))
        assert drawn.text == "{}x{}".format(*nearest).rjust(8)
        await told.stop()

    run(look())


@pytest.mark.parametrize(
    "said",
    [
        "", "junk", "{}", "[]", "7", '["stdin"]', '["stdin",7]', '["stdin","\\ud800"]', '["resize",{"width":1}]',
        '["signal",9]', '["resize",{"width":80.5,"height":24}]', '["resize",{"width":NaN,"height":24}]',
        '["resize",{"width":"80","height":"24"}]', '["resize",{"width":null,"height":-Infinity}]', "[" * 20_000, "\x00",
    ],
)  # fmt: skip
def test_a_page_that_is_not_ours_is_closed_and_nothing_else(served: Served, said: str) -> None:
    async def look() -> None:
        async with session() as made:
            async with made.ws_connect(served.socket, origin=served.origin) as socket:
                await hear(socket, "hang.jsonl.gz")
                await socket.send_str(said)
                while (await socket.receive(timeout=NEVER_S)).type is aiohttp.WSMsgType.BINARY:
                    pass
                assert socket.close_code == aiohttp.WSCloseCode.UNSUPPORTED_DATA
            await until(lambda: served.screens() == [])

    run(look())


def test_a_message_may_be_so_long_and_no_longer(served: Served) -> None:
    async def look() -> None:
        async with session() as made:
            async with made.ws_connect(served.socket, origin=served.origin) as socket:
                await hear(socket, "hang.jsonl.gz")
                await socket.send_str("x" * (1 << 17))
                while (await socket.receive(timeout=NEVER_S)).type is aiohttp.WSMsgType.BINARY:
                    pass
                assert socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
            await until(lambda: served.screens() == [])

    run(look())


@pytest.mark.parametrize(
    "asked", [b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000]
)  # fmt: skip
def test_a_request_may_be_so_long_and_no_longer(served: Served, asked: bytes) -> None:
    with served.silent() as line:
        with contextlib.suppress(ConnectionError):
            line.sendall(asked)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while chunk := line.recv(4096):
                answer += chunk
        assert answer.partition(b"\r\n")[0] in (b"", b"HTTP/1.0 400 Bad Request", b"HTTP/1.1 400 Bad Request")


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("OPTIONS * HTTP/1.1\r\nHost: {own}\r\n\r\n", 404),
        ("CONNECT x:80 HTTP/1.1\r\nHost: {own}\r\n\r\n", 404),
        ("GET http://x HTTP/1.1\r\nHost: {own}\r\n\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: [x]\r\n\r\n", 404),
        ("GET /{secret}/ HTTP/1.1\r\nHost: [::1\r\n\r\n", 403),
        ("GET /{secret}/ HTTP/1.1\r\nHost: [x]\r\n\r\n", 403),
        ("GET /{secret}/ HTTP/1.1\r\nHost: a\u2100b\r\n\r\n", 403),
        ("POST /{secret}/ HTTP/1.1\r\nHost: {own}\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\njunk", 405),
        ("POST / HTTP/1.1\r\nHost: {own}\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\njunk", 404),
    ],
)
def test_an_odd_request_is_refused_and_nothing_is_said_of_it(served: Served, asked: str, answered: int) -> None:
    """The fixture sees what is said; before it ends, this server answers as ever."""
    given = asked.format(own=f"127.0.0.1:{served.port}", secret=served.secret)
    assert answer_to(served, given.encode()) == answered
    assert run(status(served.address)) == 200


def answer_to(served: Served, request: bytes) -> int:
    """The status with which it begins."""
    with served.silent() as line:
        line.sendall(request)
        with line.makefile("rb") as said:
            return int(said.readline().split()[1])


def test_a_path_that_is_no_text_is_not_found(tmp_path: Path) -> None:
    """aiohttp's own parser of requests, for where its C code is not built, lets it through."""
    served = Served(
        "--replay", str(record(tmp_path / "hang.jsonl.gz")), env={**ENVIRONMENT, "AIOHTTP_NO_EXTENSIONS": "1"}
    )
    try:
        assert answer_to(served, b"GET /\xff/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == 404
    finally:
        _, said = served.end()
    assert len(said.splitlines()) == 1


def is_over(line: socket.socket) -> bool:
    """The server has let go of it."""
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def test_connections_that_lead_to_nothing_make_room(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(served.silent()) for _ in range(MOST + 10)]
        for line in silent[::2]:
            line.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert all(map(is_over, silent[:10]))
        assert run(upgrade(served.socket, Origin=served.origin)) == 101
        found = psutil.Process(served.process.pid).net_connections()
        assert len([row for row in found if row.status == "ESTABLISHED"]) <= MOST + 4


def test_one_more_takes_the_place_of_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though no time of any of them is ever over."""
    monkeypatch.setattr(connections, "PATIENCE_S", 1e6)
    monkeypatch.setattr(connections, "MOST", 2)

    async def look() -> None:
        kept = connections.Connections()
        with socket.create_server(("127.0.0.1", 0)) as door:
            door.setblocking(False)
            accepting = asyncio.create_task(kept.accept(door, asyncio.Protocol))
            oldest, *others = [await asyncio.open_connection(*door.getsockname()) for _ in range(3)]
            await is_let_go(*oldest)
            assert [reader.at_eof() for reader, _ in others] == [False, False]
            accepting.cancel()
            for transport in list(kept._ends):
                kept._drop(transport)
            for reader, writer in others:
                await is_let_go(reader, writer)

    run(look())


def test_a_connection_may_last_so_long_unless_it_becomes_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 0.1)

    async def look() -> None:
        kept = connections.Connections()
        made: list[asyncio.BaseTransport] = []

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(transport)

        with socket.create_server(("127.0.0.1", 0)) as door:
            door.setblocking(False)
            accepting = asyncio.create_task(kept.accept(door, Protocol))
            window, writer = await asyncio.open_connection(*door.getsockname())
            await until(lambda: len(made) == 1)
            with kept.lasting(made[0]):
                for _ in range(3):
                    await is_let_go(*await asyncio.open_connection(*door.getsockname()))
                assert not window.at_eof()
                assert not made[0].is_closing()
            await is_let_go(window, writer)
            accepting.cancel()

    run(look())


async def is_let_go(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """In the middle of a request."""
    writer.write(b"GET / HT")
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def answers(address: str) -> None:
    """Sooner or later, for whoever was let go of asks again."""
    answer = 0
    while answer != 200:
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            answer = await status(address)


def test_without_files_it_waits_and_says_so_once(tmp_path: Path) -> None:
    served = Served("--replay", str(record(tmp_path / "hang.jsonl.gz")), files=24)
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(served.silent())
            run(answers(served.address))
    finally:
        ended, said = served.end()
    assert ended == 0
    assert "Traceback" not in said
    assert said.count("mpmon: a connection cannot be accepted: Too many open files.") == 1
    assert len(said.splitlines()) < 10


@pytest.mark.parametrize("full", [False, True])
def test_a_screen_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """Also where the pipe to it takes no more."""
    monkeypatch.setattr(viewer, "END_S", 0.2)

    async def look() -> None:
        drawn = Drawn()
        deaf = viewer.Viewer(f"{SAYS_ITS_SIZE}; exec sleep 1000", drawn, downloads.DownloadManager())
        await deaf.begin(80, 24)
        await drawn.began.wait()
        typing = [asyncio.create_task(deaf.hear(json.dumps(["stdin", "j" * 60_000]))) for _ in range(4 * full)]
        await until(lambda: full is (deaf.stdin.transport.get_write_buffer_size() > 1 << 16))
        await asyncio.gather(deaf.stop(), deaf.stop())
        assert deaf._process.returncode == -signal.SIGKILL
        await asyncio.gather(*typing)

    run(look())
