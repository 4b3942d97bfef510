"""mpmon's own paths on a file system that does not answer: it says so and ends, or goes on without.

Limits of time are guards only: what they end has failed.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mpmon.commands import show
from mpmon.probes.own import served
from mpmon.session.recording import read_recording
from tests.deadfs.jobs import job
from tests.deadfs.mounting import MOODS, Mount, needs_fuse
from tests.live.test_dead_mounts import Answer, dead, looking
from tests.shim.test_run import MPMON, terminal
from tests.test_cli import HUNG
from tests.tui.fakes import FakeWatch, hung
from tests.tui.screens import play, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

pytestmark = [pytest.mark.live, needs_fuse]

TELLS = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    print("it tells", flush=True)
    time.sleep(0.05)
sys.exit(7)
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with Mount(tmp_path) as mount:
        yield mount


@pytest.fixture(params=MOODS)
def gone(request: pytest.FixtureRequest, mount: Mount) -> Mount:
    """One that does not answer."""
    mount.be(request.param)
    return mount


def said(mount: Mount, *arguments: str) -> Answer:
    """What mpmon says by itself."""
    with looking(mount, *arguments) as look:
        return look.answer()


def test_settings_that_cannot_be_had_are_told_and_left(gone: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", gone.place)
    answer = said(gone, "--replay", HUNG, "--once", "--json")
    assert answer.status == 3, answer
    assert answer.report["verdict"] == "hung"
    (line,) = answer.words.splitlines()
    assert f"the file system of {gone.place}/mpmon/config.toml does not answer" in line
    assert "settings are not in effect" in line


def test_config_shows_the_defaults(gone: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", gone.place)
    assert said(gone, "config").status == 0


@pytest.mark.parametrize("command", ["--replay", "--record", "serve", "gc"])
def test_a_path_that_the_user_names_ends_in_one_sentence(
    gone: Mount, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {
        "--replay": ("--replay", f"{gone.place}/data.bin", "--once"),
        "--record": (str(os.getpid()), "--once", "--record", f"{gone.place}/facts.jsonl"),
        "serve": ("serve", "--replay", f"{gone.place}/data.bin"),
        "gc": ("gc", f"{gone.place}/run"),
    }[command]
    answer = said(gone, *arguments)
    assert answer.status == 1, answer
    (line,) = answer.words.splitlines()
    assert line.startswith(f"mpmon: the file system of {gone.place}/")
    assert "does not answer. Check its server" in line


def test_a_job_is_run_without_the_shim(gone: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPMON_RUN_DIR", f"{gone.place}/run")
    # The program itself looks for no files there.
    answer = said(gone, "run", "--headless", "--", "sh", "-c", 'exit "${MPMON_RUN_DIR:+9}7"')
    assert answer.status == 7, answer
    assert f"the shim is off: the file system of {gone.place}/run does not answer" in answer.words


@pytest.mark.parametrize("program", ["/program", "PATH"])
def test_a_program_that_lies_there_is_not_started(gone: Mount, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{gone.place}:{os.environ['PATH']}")
    name = "true" if program == "PATH" else f"{gone.place}{program}"
    answer = said(gone, "run", "--headless", "--", name)
    assert answer.status == 126, answer
    (line,) = answer.words.splitlines()
    assert f"mpmon: {name} cannot be started: the file system of {gone.place}/" in line
    # One further on is not asked.
    monkeypatch.setenv("PATH", f"{os.environ['PATH'].removeprefix(gone.place)}:{gone.place}")
    assert said(gone, "run", "--headless", "--", "true").status == 0


def test_a_job_is_recorded_on_a_server(mount: Mount) -> None:
    """Packed and in several rounds, and read from there."""
    path = f"{mount.place}/facts.jsonl.gz"
    with job(mount, "idle.py", "nothing") as program:
        answer = said(mount, str(program.pid), "--once", "--record", path)
    assert answer.words == ""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600  # whatever the umask, for its owner only
    replayed = said(mount, "--replay", path, "--once", "--json")
    assert (replayed.status, replayed.report["processes"][0]["pid"]) == (answer.status, program.pid)
    assert len(list(read_recording(Path(path)))) > 1
    assert "exists already" in said(mount, str(os.getpid()), "--once", "--record", path).words


@pytest.mark.parametrize("mood", MOODS)
def test_a_watch_goes_on_when_the_server_of_its_recording_dies(mount: Mount, mood: str) -> None:
    path = f"{mount.place}/facts.jsonl"
    with job(mount, "idle.py", "nothing") as program:
        with looking(mount, str(program.pid), "--plain", "--interval", "0.2", "--record", path) as look:
            look.said("mpmon watches")
            mount.be(mood)
            silent_at = time.time()
            look.said("recorder:", f"the file system of {path} does not answer")
            told_at = time.time()
            mount.be("answer")
            look.said("recorder: works again")
            look.process.send_signal(signal.SIGINT)
            assert look.answer().status == 130
        rows = [row.taken_at for row in read_recording(Path(path))]
    # What could not be written then was kept.
    assert any(silent_at < row < told_at for row in rows)
    assert rows[-1] > told_at


@pytest.mark.parametrize("mood", MOODS)
def test_what_a_recording_lacks_at_the_end_is_told(mount: Mount, mood: str) -> None:
    path = f"{mount.place}/facts.jsonl"
    with (
        job(mount, "idle.py", "nothing") as program,
        looking(mount, str(program.pid), "--json", "--interval", "0.2", "--record", path) as look,
    ):
        look.said('"verdict"')
        mount.be(mood)
        look.said("recording-behind", "the recording is not being written")
        look.process.send_signal(signal.SIGINT)
        _, words = look.process.communicate()
    assert look.process.returncode == 130
    assert f"the end of the recording {path} is missing" in words.decode()


@pytest.mark.parametrize("mood", MOODS)
def test_a_job_whose_output_cannot_be_read_is_waited_for(
    mount: Mount, mood: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And what it writes is shown when its server answers again."""
    here = tmp_path_factory.mktemp("here")
    job = [sys.executable, "-c", TELLS, str(here / "end")]
    with terminal([*MPMON, "run", "--output", f"{mount.place}/log", "--", *job], here) as screen:
        try:
            screen.until(b"goes to", b"\x1b[?1049h")
            mount.be(mood)
            screen.press(b"q")
            screen.until(b"the job continues", b"is not shown: the file system of", b"does not answer")
        finally:
            mount.be("answer")
        screen.until(b"it tells")
        (here / "end").touch()
        assert screen.end() == 7


@pytest.mark.parametrize("mood", MOODS)
def test_what_is_saved_of_the_screen_in_a_folder_that_is_gone(
    mount: Mount, mood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mount.place)
    mount.be(mood)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("x")
        await settle(pilot, lambda: shows(pilot, "not written: the file system of"))

    try:
        play(FakeWatch(hung()), script, first="HUNG", save=show._save)
    finally:
        mount.be("answer")


def test_what_is_saved_of_the_screen_on_a_server(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mount.place)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("x")
        await settle(pilot, lambda: shows(pilot, "written: mpmon-4100-"))

    play(FakeWatch(hung()), script, first="HUNG", save=show._save, export=lambda _: "hung\n")
    (report,) = Path(mount.place).glob("mpmon-4100-*.txt")
    assert report.read_text(encoding="utf-8") == "hung\n"


def test_dead_settings_do_not_keep_mpmon_from_a_dead_job(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", mount.place)
    with dead(mount, "silent", "stands.py", "read") as program:
        answer = said(mount, str(program.pid), "--once", "--json")
    assert answer.report["findings"][0]["cause"] == "io-wait"


def test_what_leads_to_a_server_is_known_without_asking_it(
    mount: Mount, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path_factory.mktemp("here")
    (here / "there").symlink_to(mount.place)
    (here / "through").symlink_to(f"{mount.place}/../own")
    (here / "loop").symlink_to("loop")
    monkeypatch.chdir(here)
    with open(f"{mount.place}/small.txt", encoding="utf-8") as file:
        mount.be("silent")
        try:
            assert served(f"{mount.place}/a/../b") == f"{mount.place}/a/../b"
            assert served("there/x") == served(f"{here}/there/x") == f"{mount.place}/x"
            assert served("./there") == mount.place
            assert served("through") == f"{mount.place}/../own"
            assert served(f"/proc/self/fd/{file.fileno()}") == f"{mount.place}/small.txt"
            for own in ("loop", "none", f"{here}/none/x", "/dev/null", "/", "", f"/proc/{os.getpid()}/fd/0"):
                assert not served(own)
        finally:
            mount.be("answer")
