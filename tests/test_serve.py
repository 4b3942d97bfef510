"""The screen in a browser: who is let in, what comes over the wire, and that nothing stays behind."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mpmon import __version__, start
from tests.patience import NEVER_S
from tests.serving import Served, aiohttp, hear, run, session, status, until, upgrade
from tests.session.hanging import record
from tests.test_cli import ENVIRONMENT, mpmon, one_sentence


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        running = Served("--replay", str(record(Path(folder) / "hang.jsonl.gz")))
        yield running
        status, said = running.end()
        assert status == 0
        assert "Traceback" not in said


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
            await hear(socket, "10 of 50")
            await socket.send_json(["stdin", "h"])
            await hear(socket, "quit mpmon")
            await socket.send_json(["stdin", "q"])
            while (await socket.receive(timeout=NEVER_S)).type is aiohttp.WSMsgType.BINARY:
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


SECRET = "hf_0123456789"


@pytest.fixture
def job() -> Iterator[int]:
    """A process with a secret in its environment."""
    with subprocess.Popen(["sleep", "1000"], env={"SECRET_TOKEN": SECRET}) as sleeps:
        yield sleeps.pid
        sleeps.kill()


@pytest.mark.parametrize("settings", ["", "readonly = false\n"])
def test_a_window_may_only_look(job: int, tmp_path: Path, settings: str) -> None:
    """Whatever the file of settings says."""
    (tmp_path / "config" / "mpmon").mkdir(parents=True)
    (tmp_path / "config" / "mpmon" / "config.toml").write_text(settings)
    (tmp_path / "here").mkdir()
    environment = {**ENVIRONMENT, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    served = Served(str(job), cwd=tmp_path / "here", env=environment)

    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            first = await hear(socket, "read-only")
            drawn = first + await hear(socket, f"pid {job}") if f"pid {job}" not in first else first
            for key, said in (
                ("x", "no files: "),
                ("k", "no signals: "),
                ("e", "SECRET_TOKEN="),
                ("v", "no secrets: "),
            ):
                await socket.send_json(["stdin", key])
                drawn += await hear(socket, said)
        assert SECRET not in drawn

    try:
        run(look())
    finally:
        served.end()
    assert list((tmp_path / "here").iterdir()) == []


def test_unless_it_was_started_so(job: int, tmp_path: Path) -> None:
    served = Served(str(job), "--no-readonly", cwd=tmp_path)

    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, f"pid {job}")
            # A key that comes before the first look at the process finds nothing to write.
            await hear(socket, "asleep")
            for key, said in (("x", "written: mpmon-"), ("e", "SECRET_TOKEN="), ("v", SECRET)):
                await socket.send_json(["stdin", key])
                await hear(socket, said)

    try:
        run(look())
    finally:
        served.end()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".svg", ".txt"]


# The end


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


def test_not_even_one_that_hangs(tmp_path: Path) -> None:
    """It is stopped, so that it notices nothing by itself."""
    served = Served("--replay", str(record(tmp_path / "hang.jsonl.gz")))

    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "hang.jsonl.gz")
            (screen,) = served.screens()
            screen.suspend()
            await until(lambda: screen.status() == psutil.STATUS_STOPPED)
            served.process.kill()
            served.process.wait()
            await until(lambda: not screen.is_running())

    run(look())
    served.process.communicate()


def test_nor_one_that_has_only_begun() -> None:
    """Its parent was another one when it was started."""
    for parent, said in ((os.getpid(), f"mpmon {__version__}\n"), (os.getpid() + 1, "")):
        words = start.command("mpmon.serve.screen", str(parent), "--version")
        told = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (told.returncode, told.stdout, told.stderr) == (0, said, "")


def test_a_screen_that_is_killed_closes_its_window(served: Served) -> None:
    async def look() -> None:
        async with session() as made, made.ws_connect(served.socket, origin=served.origin) as socket:
            await hear(socket, "hang.jsonl.gz")
            (screen,) = served.screens()
            screen.kill()
            while (await socket.receive(timeout=NEVER_S)).type is aiohttp.WSMsgType.BINARY:
                pass

    run(look())


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
    assert "there is no file" in one_sentence(mpmon("serve", "--replay", "nothing"), 2)


def test_a_recording_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello")
    os.mkfifo(tmp_path / "fifo")
    for name, words in (
        ("notes", "is not a recording"),
        ("fifo", "is not a regular file"),
        ("", "is not a regular file"),
    ):
        assert words in one_sentence(mpmon("serve", "--replay", str(tmp_path / name)), 2)


def test_what_no_window_could_use(job: int) -> None:
    assert "theme" in one_sentence(mpmon("serve", str(job), "--theme", "none"), 2)
    assert "is not the address" in one_sentence(mpmon("serve", str(job), "--flight-recorder", "http://x"), 2)


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
                assert complaints + await drawn(page, "10 of 50") == []

    run(look())


async def tell(page: Any, method: str, **parameters: object) -> None:
    await page.send_json({"id": 1, "method": method, "params": parameters})


async def drawn(page: Any, words: str) -> list[str]:
    """Wait for words to come over the page's websocket; what the browser complained of meanwhile."""
    complaints: list[str] = []
    while True:
        event = (await page.receive(timeout=NEVER_S)).json()
        about = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            complaints.append(about["entry"]["text"])
        if event.get("method") == "Network.webSocketFrameReceived" and words in _binary(about["response"]):
            return complaints


def _binary(frame: dict[str, Any]) -> str:
    """What a frame draws; nothing when it is one of text."""
    return base64.b64decode(frame["payloadData"]).decode() if frame["opcode"] == 2 else ""
