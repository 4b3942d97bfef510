"""A line for whatever happens: `--plain`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Diagnosis, Event, Observation, Verdict
from mpmon.probes import pidfds
from mpmon.reports import plain
from mpmon.session.watch import ReplayWatch
from tests.builders import START, process, snapshot
from tests.live.running import REPOSITORY, Program
from tests.patience import rest_of
from tests.session.hanging import record
from tests.test_cli import mpmon, one_sentence

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def observation(*events: Event) -> Observation:
    """Ten seconds after the start."""
    return Observation(
        snapshot=snapshot(process(), at=10.0),
        diagnosis=Diagnosis(verdict=Verdict.HEALTHY),
        watched_s=10.0,
        events=events,
    )


def event(summary: str, at: float = 10.0) -> Event:
    return Event(at=START + at, kind="died", summary=summary)


def test_only_what_is_new_is_told() -> None:
    (line,) = plain.lines(observation(event("earlier", 9.0), event("rank 2 ended")))
    assert re.fullmatch(f"{MOMENT} rank 2 ended", line)


def test_when_nothing_happens_nothing_is_told() -> None:
    assert plain.lines(observation(event("earlier", 9.0))) == []


def test_a_name_cannot_make_lines_or_colours() -> None:
    (line,) = plain.lines(observation(event("subprocess two\nlines\x1b[31m ended")))
    assert line.endswith("subprocess two\\nlines\\x1b[31m ended")


def test_ascii() -> None:
    (line,) = plain.lines(observation(event("rank 2 → ended …")), ascii_only=True)
    assert line.isascii()


def test_the_events_of_a_hang(tmp_path: Path) -> None:
    watch = ReplayWatch(record(tmp_path / "hang.jsonl"), at_once=True)
    told = [line.split(" ", 2)[2] for each in watch for line in plain.lines(each)]
    assert told == [
        "mpmon watches pid 4100: 2 processes",
        "healthy: main is waiting for next batch in main() at train.py:7",
        "slow: dataloader worker 0 is opening a file in __getitem__() at data.py:20, so far only for 7 s",
        "the job hangs, for 30 s now",
        told[4],
    ]
    assert told[4].startswith("worker-stuck (likely): dataloader worker 0 has been opening a file")


def test_a_recording_as_lines(tmp_path: Path) -> None:
    answer = mpmon("--replay", str(record(tmp_path / "hang.jsonl")), "--plain")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert len(answer.stdout.splitlines()) == 5
    assert all(re.match(f"{MOMENT} ", line) for line in answer.stdout.splitlines())


@pytest.mark.parametrize("other", ["--once", "--json"])
def test_two_ways_at_once(other: str) -> None:
    assert "--plain cannot be combined with" in one_sentence(mpmon(str(os.getpid()), "--plain", other), 2)


def test_a_live_job_that_ends() -> None:
    """How its child ended is told, and then that the job has."""
    with Program("pool_worker.py").hear("child") as program:
        command = [sys.executable, "-m", "mpmon", str(program.pid), "--plain", "--interval", "0.2"]
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
        assert watcher.stdout
        told = [watcher.stdout.readline()]
        program.__exit__()
        rest, problems = rest_of(watcher)
        told += rest.splitlines()
    assert (watcher.returncode, problems) == (0, "")
    assert "mpmon watches pid" in told[0]
    if pidfds._kernel() >= pidfds.SINCE:
        assert any("killed by SIGKILL (9)" in line for line in told), told
    assert told[-1].endswith("the job ended")
