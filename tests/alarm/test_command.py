"""The user's command: whatever it does, the watch goes on, and nothing of it is left."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mpmon.alarm import MOST_WAITING, Alarm, command
from mpmon.alarm.command import MOST_LINES, MOST_OUTPUT, Command
from mpmon.diagnosis.findings import Observation
from tests.alarm.test_hangs import observation
from tests.builders import process, snapshot
from tests.patience import becomes, left_of, readable


def over_after(monkeypatch: pytest.MonkeyPatch, ready: Callable[[subprocess.Popen[bytes]], object]) -> None:
    """Commands have a second, which begins when that is so of them."""
    start = Command._started

    def started(self: Command, report: str) -> subprocess.Popen[bytes]:
        process = start(self, report)
        assert becomes(lambda: ready(process), pause_s=0.01)
        return process

    monkeypatch.setattr(Command, "_started", started)
    monkeypatch.setattr(command, "LONGEST_S", 1.0)


def ran(line: str, report: str = "HUNG", **environment: str) -> tuple[list[str], str | None]:
    made = Command(["/bin/sh", "-c", line], {**os.environ, **environment})
    return made.run(report), made.problem


def test_it_reads_the_report_and_its_environment() -> None:
    assert ran("cat; echo $MPMON_CAUSE", report="HUNG\n  é ▶", MPMON_CAUSE="gil-held") == (
        ["HUNG", "  é ▶", "gil-held"], None,
    )  # fmt: skip


def test_a_report_that_is_not_read_keeps_nobody_waiting() -> None:
    assert ran("echo done", report="x" * (1 << 20)) == (["done"], None)


def test_its_status_is_told() -> None:
    assert ran("echo no; exit 7") == (["no"], "the command of --on-hang ended with status 7.")
    assert ran("kill -9 $$")[1] == "the command of --on-hang ended with status 137."
    assert ran("no-such-program 2>/dev/null")[1] == "the command of --on-hang ended with status 127."


def test_what_cannot_be_started_is_told() -> None:
    made = Command(["/no/such/shell"], {})
    assert made.run("") == []
    assert (made.problem or "").startswith("the command of --on-hang could not be started: ")


def test_of_endless_output_the_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    over_after(monkeypatch, lambda process: readable(process.stdout))
    said, problem = ran("yes 0123456789")
    assert len(said) == MOST_LINES
    assert sum(map(len, said)) <= MOST_OUTPUT
    assert problem
    assert "did not end" in problem


def test_much_output_does_not_stop_it() -> None:
    said, problem = ran(f"{shlex.quote(sys.executable)} -c 'print(\"x\" * (1 << 22))'")
    assert (len(said[0]), problem) == (MOST_OUTPUT, None)


@pytest.mark.parametrize(
    "line",
    ["echo $$ >{}; sleep 600", "sleep 600 & echo $! >{}", "(trap '' TERM HUP INT; exec sleep 600) & echo $! >{}; wait",
     "echo $$ >{}; exec sleep 600 >/dev/null 2>&1"],
)  # fmt: skip
def test_one_that_does_not_end_is_killed_with_all_it_started(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    over_after(monkeypatch, lambda _: file.exists() and file.read_text().endswith("\n"))
    said, problem = ran(line.format(shlex.quote(str(file))))
    assert (said, problem) == ([], "the command of --on-hang did not end within 1 s and was killed.")
    pid = int(file.read_text())
    assert left_of([psutil.Process(pid)] if psutil.pid_exists(pid) else []) == []


def test_what_it_leaves_behind_without_its_output_is_let_go(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert ran(f"cat {shlex.quote(str(pipe))} >/dev/null 2>&1 & echo left") == (["left"], None)
    os.close(os.open(pipe, os.O_WRONLY))  # opens, as the one left behind reads, and lets it end


# With the watch


class Told:
    """An alarm, and what it says."""

    def __init__(self, line: str, *, on_screen: bool = False) -> None:
        self.problems: list[str] = []
        self.lines: list[str] = []
        self.alarm = Alarm(line, lambda _: "HUNG", tell=self.problems.append, echo=self.lines.append)
        self.alarm.on_screen = on_screen


def complaint(alarm: Alarm) -> list[tuple[bool, str | None]]:
    return [(row.ok, row.problem) for row in alarm.noted(snapshot(process())).probes]


def test_a_hang_and_its_end() -> None:
    told = Told("echo $MPMON_EVENT; cat")
    for at, state in enumerate("-hhx"):
        told.alarm.see(observation(state, at))
    told.alarm.close()
    assert (told.lines, told.problems) == (["hang", "HUNG", "end", "HUNG"], [])


def test_a_job_that_ends_out_of_sight() -> None:
    told = Told("echo $MPMON_EVENT")
    told.alarm.job_ended()
    told.alarm.see(observation("h", 0.0))
    told.alarm.job_ended()
    told.alarm.job_ended()
    told.alarm.close()
    assert told.lines == ["hang", "end"]


def test_rounds_go_on_while_the_command_runs(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = Told(f"cat {shlex.quote(str(pipe))}")
    for at in range(100):
        told.alarm.see(observation("h", at))
    pipe.write_text("let go\n")
    told.alarm.close()
    assert (told.lines, told.problems) == (["let go"], [])


def test_calls_that_would_pile_up_are_left_out(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = Told(f"[ $MPMON_SECONDS != 0 ] || cat {shlex.quote(str(pipe))}")
    for day in range(MOST_WAITING + 3):
        told.alarm.see(observation("h", day * 86400.0))
        told.alarm.see(observation("-", day * 86400.0 + 1))
        told.alarm.see(observation("-", day * 86400.0 + 7200.0))
    pipe.write_text("let go\n")
    told.alarm.close()
    assert told.problems
    assert set(told.problems) <= {"the command of --on-hang is still running for an earlier hang: one call was skipped.",
                                  "waiting for the command of --on-hang."}  # fmt: skip


def test_on_the_screen_a_problem_is_a_complaint_and_nothing_is_written() -> None:
    told = Told("echo so it is; exit 3", on_screen=True)
    assert complaint(told.alarm) == []
    told.alarm.see(observation("h", 0.0))
    told.alarm._jobs.put(None)
    assert told.alarm._thread
    told.alarm._thread.join()
    problem = "the command of --on-hang ended with status 3. It said: so it is"
    assert complaint(told.alarm) == [(False, problem)]
    assert (told.lines, told.problems) == ([], [])
    told.alarm._thread = None
    told.alarm._problem = None
    assert complaint(told.alarm) == [(True, None)]
    assert complaint(told.alarm) == []


def test_a_defect_does_not_reach_the_watch() -> None:
    def fails(_: Observation) -> str:
        raise ZeroDivisionError

    problems: list[str] = []
    alarm = Alarm("true", fails, tell=problems.append, echo=problems.append)
    alarm.see(observation("h", 0.0))
    alarm.close()
    assert [problem.partition(":")[0] for problem in problems] == ["the command of --on-hang was not called"]


def test_an_interrupted_wait_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    told = Told(f"echo $$ >{shlex.quote(str(pid))}; sleep 600")
    told.alarm.see(observation("h", 0.0))
    sleeper = psutil.Process(int(pid.read_text()))
    thread = told.alarm._thread
    assert thread

    def interrupt(_seconds: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(thread, "join", interrupt)
        with pytest.raises(KeyboardInterrupt):
            told.alarm.close()
    thread.join()
    assert not sleeper.is_running()
    assert not [each for each in threading.enumerate() if each is thread]
