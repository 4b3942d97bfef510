"""Every way of watching has the alarm: `--on-hang` with a job that really hangs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.running import Program
from tests.nodes.programs import agent_for, environment
from tests.patience import becomes, ran
from tests.shim.test_run import terminal
from tests.test_cli import HUNG, mpmon, one_sentence

pytestmark = pytest.mark.live

MPMON = [sys.executable, "-m", "mpmon"]


@pytest.fixture(scope="module")
def job() -> Iterator[Program]:
    """Two processes that wait for each other."""
    with Program("lock_order.py", "fork").hear("left", "right") as program:
        yield program


class Calls:
    """A command that writes down what it is told."""

    def __init__(self, folder: Path) -> None:
        self.report, self._log = folder / "report", folder / "calls"
        self._log.touch()
        words = "$MPMON_EVENT|$MPMON_CAUSE|$MPMON_PID|$MPMON_SUSPECT"
        report, log = shlex.quote(str(self.report)), shlex.quote(str(self._log))
        self.command = f'cat >{report}.part; mv {report}.part {report}; echo "{words}" >>{log}'

    @property
    def told(self) -> list[list[str]]:
        return [line.split("|") for line in self._log.read_text().splitlines()]

    def until_told(self) -> None:
        eventually(lambda: bool(self.told))

    def check(self, root: str) -> None:
        """Once, of this job."""
        ((event, cause, pid, suspect),) = self.told
        assert (event, cause, pid) == ("hang", "lock-cycle", root)
        assert suspect.startswith("process take_")
        assert self.report.read_text().startswith("HUNG for ")


def eventually(happened: Callable[[], bool]) -> None:
    assert becomes(happened)


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def test_one_report(job: Program, calls: Calls, tmp_path: Path) -> None:
    record = str(tmp_path / "hang.jsonl")
    answer = mpmon(str(job.pid), "--once", "--record", record, "--on-hang", calls.command)
    assert (answer.returncode, answer.stderr) == (3, "")
    calls.check(str(job.pid))


@pytest.mark.parametrize("way", ["--json", "--plain"])
def test_a_stream(way: str, job: Program, calls: Calls, tmp_path: Path) -> None:
    words = [
        *MPMON,
        str(job.pid),
        way,
        "--interval",
        "0.2",
        "--record",
        str(tmp_path / "r"),
        "--on-hang",
        calls.command,
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/") as watching:
        try:
            calls.until_told()
            # The same hang goes on: more of it is recorded, and nobody is called.
            size = (tmp_path / "r").stat().st_size
            eventually(lambda: (tmp_path / "r").stat().st_size > 2 * size)
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.stderr
        assert watching.stderr.read() == ""
    calls.check(str(job.pid))


def test_nodes(job: Program, calls: Calls, tmp_path: Path) -> None:
    agent = str(agent_for(tmp_path, job.pid))
    words = [*MPMON, "--nodes", "good", "--once", "--agent", agent, "--on-hang", calls.command]
    answer = ran(words, env=environment(tmp_path, "good"), stdin=subprocess.DEVNULL, cwd="/")
    assert (answer.returncode, answer.stderr) == (3, "")
    calls.check("")


def test_the_screen_says_what_is_wrong_with_the_command(job: Program, calls: Calls, tmp_path: Path) -> None:
    line = f"{calls.command}; echo written by it; exit 7"
    with terminal([*MPMON, str(job.pid), "--interval", "0.2", "--on-hang", line], tmp_path) as screen:
        screen.until(b"\x1b[?1049h", b"ended with status 7")
        screen.press(b"q")
        assert screen.end() == 0
        after = screen.shown.rpartition(b"\x1b[?1049l")[2]
    assert b"mpmon: the command of --on-hang ended with status 7. It said: written by it" in after
    calls.check(str(job.pid))


def test_a_command_that_fails_is_one_sentence(job: Program) -> None:
    answer = mpmon(str(job.pid), "--once", "--json", "--on-hang", "echo said; exit 7")
    assert answer.returncode == 3
    assert answer.stderr.splitlines() == ["said", "mpmon: the command of --on-hang ended with status 7."]


def test_it_is_of_no_use_to_a_recording() -> None:
    assert "--on-hang and --replay do not go together" in one_sentence(mpmon("--replay", HUNG, "--on-hang", "true"), 2)


def test_an_empty_command() -> None:
    said = one_sentence(mpmon(str(os.getpid()), "--once", "--on-hang", " "), 2)
    assert "the command of --on-hang is empty" in said
