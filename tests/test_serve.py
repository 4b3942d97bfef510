"""The screen in a browser: who is let in, what comes over the wire, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.session.hanging import record
from tests.test_cli import ENVIRONMENT, mpmon, one_sentence

pytest.importorskip("textual_serve", reason="needs textual-serve")
aiohttp = pytest.importorskip("aiohttp")


class Served:
    """A running `mpmon serve`."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "mpmon", "serve", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{43})/", self.address)
        assert found, self.address
        self.port, self.secret = int(found[1]), found[2]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.socket = f"ws://127.0.0.1:{self.port}/{self.secret}/ws?width=80&height=24"

    def screens(self) -> list[psutil.Process]:
        """The processes behind the windows that are open."""
        return psutil.Process(self.process.pid).children()

    def end(self) -> tuple[int, str]:
        """Ctrl-C; exit status and what was said on standard error."""
        children = self.screens()
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        _, left = psutil.wait_procs(children, timeout=10)
        assert left == []
        return self.process.returncode, said


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        running = Served("--replay", str(record(Path(folder) / "hang.jsonl.gz")))
        yield running
        status, said = running.end()
        assert status == 0
        assert "Traceback" not in said


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 120))


@contextlib.asynccontextmanager
async def session() -> AsyncIterator[Any]:
    async with aiohttp.ClientSession() as made:
        yield made


async def status(address: str, **headers: str) -> int:
    async with session() as made, made.get(address, headers=headers) as answer:
        return answer.status


async def upgrade(address: str, **headers: str) -> int:
    """The status with which a websocket is answered; 101 for one that is opened."""
    async with session() as made:
        try:
            async with made.ws_connect(address, headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status


async def hear(socket: Any, words: str) -> str:
    """What was drawn until these words were."""
    drawn = ""
    while words not in drawn:
        message = await socket.receive(timeout=60)
        assert message.type is aiohttp.WSMsgType.BINARY, message
        drawn += message.data.decode()
    return drawn


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


# Who is let in


def test_the_page_with_the_secret(served: Served) -> None:
    assert run(status(served.address)) == 200
    assert run(status(f"{served.address}static/js/textual.js")) == 200


@pytest.mark.parametrize("path", ["", "ws", "static/js/textual.js", "../", "wrong/", "wrong/ws"])
def test_without_the_secret_there_is_nothing(served: Served, path: str) -> None:
    assert run(status(f"{served.origin}/{path}")) == 404


def test_no_websocket_without_the_secret(served: Served) -> None:
    for secret in ("", "wrong", served.secret[:-1], f"{served.secret}x"):
        assert run(upgrade(f"ws://127.0.0.1:{served.port}/{secret}/ws", Origin=served.origin)) == 404


@pytest.mark.parametrize(
    "origin", ["https://example.com", "http://localhost:1", "null", "http://127.0.0.1.example.com"]
)
def test_no_page_of_another_site_is_let_in(served: Served, origin: str) -> None:
    assert run(upgrade(served.socket, Origin=origin)) == 403
    assert run(status(served.address, Origin=origin)) == 403
    assert served.screens() == []


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", "10.0.0.7:80"])
def test_no_name_that_was_made_to_point_here_is_let_in(served: Served, host: str) -> None:
    assert run(status(served.address, Host=host)) == 403
    assert run(upgrade(served.socket, Host=host, Origin=f"http://{host}")) == 403


def test_a_tunnel_has_another_port(served: Served) -> None:
    assert run(status(served.address, Host="localhost:9000")) == 200
    assert run(upgrade(served.socket, Host="localhost:9000", Origin="http://localhost:9000")) == 101


def test_it_listens_on_this_machine_only(served: Served) -> None:
    listening = [row.laddr.ip for row in psutil.Process(served.process.pid).net_connections() if row.status == "LISTEN"]
    assert listening == ["127.0.0.1"]


def test_the_page_takes_nothing_from_elsewhere(served: Served) -> None:
    async def look() -> None:
        async with session() as made, made.get(served.address) as answer:
            text = await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert set(re.findall(r"(?:https?:)?//[\w.:]+", text)) == {f"//127.0.0.1:{served.port}"}

    run(look())


# What comes over the wire


def test_the_screen_is_drawn_and_keys_arrive(served: Served) -> None:
    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "hang.jsonl.gz")
            await socket.send_json(["stdin", "b"])
            await hear(socket, "10 of 30")
            await socket.send_json(["stdin", "h"])
            await hear(socket, "quit mpmon")
            await socket.send_json(["stdin", "q"])
            while (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.BINARY:
                pass
        await until(lambda: served.screens() == [])

    run(look())


def test_a_window_that_is_closed_ends_its_process(served: Served) -> None:
    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "hang.jsonl.gz")
            assert len(served.screens()) == 1
        await until(lambda: served.screens() == [])

    run(look())


def test_so_many_windows_and_no_more(served: Served) -> None:
    async def look() -> None:
        async with session() as made, contextlib.AsyncExitStack() as windows:
            for _ in range(4):
                await windows.enter_async_context(made.ws_connect(served.socket, origin=served.origin))
            assert await upgrade(served.socket, Origin=served.origin) == 503
        await until(lambda: served.screens() == [])

    run(look())


def test_signals_are_off_unless_asked_for(served: Served) -> None:
    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "read-only")
        await until(lambda: served.screens() == [])

    run(look())


def test_a_server_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    served = Served("--replay", str(record(tmp_path / "hang.jsonl.gz")))

    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "hang.jsonl.gz")
            await socket.send_json(["stdin", "p"])
            (screen,) = served.screens()
            served.process.kill()
            served.process.wait()
            await until(lambda: not screen.is_running())

    run(look())
    served.process.communicate()


def test_a_job_that_has_ended_is_not_looked_at_under_its_old_pid() -> None:
    job = subprocess.Popen(["sleep", "1000"])
    served = Served(str(job.pid))
    try:
        assert run(status(served.address)) == 200
        job.kill()
        job.wait()
        assert run(upgrade(served.socket, Origin=served.origin)) == 410
    finally:
        served.end()


# Wrong usage


def test_two_things_at_once() -> None:
    assert "do not go together" in one_sentence(mpmon("serve", "7", "--replay", "file"), 2)


def test_a_recording_that_is_not_there() -> None:
    assert "there is no file nothing" in one_sentence(mpmon("serve", "--replay", "nothing"), 2)


def test_a_port_that_is_taken(served: Served, tmp_path: Path) -> None:
    file = str(record(tmp_path / "hang.jsonl"))
    told = one_sentence(mpmon("serve", "--replay", file, "--port", str(served.port)), 2)
    assert f"cannot listen on port {served.port}" in told


def test_without_the_library(tmp_path: Path) -> None:
    (tmp_path / "textual_serve").mkdir()
    (tmp_path / "textual_serve" / "__init__.py").write_text("raise ModuleNotFoundError('textual_serve')")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"}
    assert "pip install 'mpmon[serve]'" in one_sentence(mpmon("serve", "7", env=environment), 2)


# A real browser


@pytest.fixture
def profile() -> Iterator[Path]:
    """A folder whose name is short: Chromium makes a socket in it, and a socket's name takes 107 bytes at most."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture
def tools(profile: Path) -> Iterator[str]:
    """The address of the developer tools of a Chromium."""
    program = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)
    if program is None:
        pytest.skip("needs Chromium")
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    browser = subprocess.Popen(
        [*command, f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        start_new_session=True, env=os.environ | dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "TMPDIR"), str(profile)),
    )  # fmt: skip
    told = profile / "DevToolsActivePort"
    try:
        run(until(lambda: told.exists() and len(told.read_text().splitlines()) == 2))
        yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}"
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


def test_a_real_browser_draws_it_and_has_nothing_to_complain_of(served: Served, tools: str) -> None:
    async def look() -> None:
        async with session() as made:
            async with made.put(f"{tools}/json/new?about:blank") as answer:
                target = await answer.json(content_type=None)
            async with made.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as page:
                for method in ("Network.enable", "Log.enable"):
                    await tell(page, method)
                await tell(page, "Page.navigate", url=served.address)
                complaints = await drawn(page, "hang.jsonl.gz")
                await tell(page, "Runtime.evaluate", expression="document.querySelector('textarea').focus()")
                await tell(page, "Input.dispatchKeyEvent", type="char", text="b")
                assert complaints + await drawn(page, "10 of 30") == []

    run(look())


async def tell(page: Any, method: str, **parameters: object) -> None:
    await page.send_json({"id": 1, "method": method, "params": parameters})


async def drawn(page: Any, words: str) -> list[str]:
    """Wait for words to come over the page's websocket; what the browser complained of meanwhile."""
    complaints: list[str] = []
    while True:
        event = (await page.receive(timeout=60)).json()
        about = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            complaints.append(about["entry"]["text"])
        if event.get("method") == "Network.webSocketFrameReceived" and words in _binary(about["response"]):
            return complaints


def _binary(frame: dict[str, Any]) -> str:
    """What a frame draws; nothing when it is one of text."""
    return base64.b64decode(frame["payloadData"]).decode() if frame["opcode"] == 2 else ""
