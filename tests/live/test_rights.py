"""Jobs that cannot be read: what remains is said, what cannot be decided is listed, and nothing is proved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpmon.diagnosis.rules import RULES
from mpmon.probes.stacks import find_py_spy
from tests.live.running import LONGEST_S, REPOSITORY, Program
from tests.live.with_rights import NOBODY
from tests.patience import rest_of

pytestmark = pytest.mark.live

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root can be another user")
HIDDEN = {rule.CAUSE for rule in RULES if rule.NEEDS & {"stacks", "blocked", "handles"}}
"""Causes that nobody can decide without the right to read a process."""


@pytest.fixture
def py_spy() -> Iterator[str]:
    """A copy that any user may start."""
    found = find_py_spy()
    assert found
    folder = Path(f"/tmp/mpmon-test-{os.getpid()}")
    folder.mkdir(mode=0o755, exist_ok=True)
    copy = folder / "py-spy"
    shutil.copy(found, copy)
    copy.chmod(0o755)
    yield str(copy)
    shutil.rmtree(folder)


def looks(pid: int, py_spy: str, *rights: str) -> list[tuple[dict[str, Any], str]]:
    """The report and its text, as seen with each of these rights; all look at the same time."""
    command = [sys.executable, "-m", "tests.live.with_rights"]
    started = [
        subprocess.Popen([*command, each, str(pid), str(LONGEST_S), py_spy], cwd=REPOSITORY, stdout=subprocess.PIPE)
        for each in rights
    ]
    answers = [json.loads(rest_of(process, seconds=3 * LONGEST_S)[0]) for process in started]
    assert [process.returncode for process in started] == [0] * len(rights)
    return [(answer["report"], answer["text"]) for answer in answers]


def check_stopped(report: dict[str, Any], text: str, program: Program) -> None:
    """The stopped child is blamed, no more surely than can be, and all else is undecided."""
    child = program.pids["child"]
    (finding,) = report["findings"]
    assert (report["verdict"], finding["cause"], finding["certainty"]) == ("hung", "stopped", "likely")
    assert [row["pid"] for row in finding["suspects"]] == [child]
    assert {row["pid"]: row["state"] for row in report["processes"]} == {program.pid: "S", child: "T"}
    check_undecided(report, text)
    assert "unreadable (for " in text


def check_undecided(report: dict[str, Any], text: str) -> None:
    assert {row["cause"] for row in report["unchecked"]} >= HIDDEN
    assert "stopped" not in {row["cause"] for row in report["unchecked"]}
    section = text.split("could not be read:")[1].split("\n\n")[0].strip().splitlines()
    assert len(section) == len({row["reason"] for row in report["unchecked"]}) <= 2
    assert all("more)" in line for line in section)


def test_a_stopped_job_of_ones_own_that_is_not_dumpable(py_spy: str) -> None:
    with Program("hidden.py", "stopped", str(NOBODY if ROOT else os.getuid())).hear("child") as program:
        for report, text in looks(program.pid, py_spy, *(("nobody", "no-ptrace") if ROOT else ("same",))):
            check_stopped(report, text, program)


@as_root
def test_a_stopped_job_of_another_user(py_spy: str) -> None:
    with Program("hidden.py", "stopped", "0").hear("child") as program:
        ((report, text),) = looks(program.pid, py_spy, "nobody")
        check_stopped(report, text, program)
        assert "belongs to root" in text


def check_end_unknown(report: dict[str, Any], text: str, pid: int) -> None:
    """A zombie is seen, but not how it ended: 0 is what the kernel shows to those who may not know."""
    dead = next(row for row in report["processes"] if row["pid"] == pid)
    assert (report["verdict"], report["findings"]) == ("unknown", [])
    assert (dead["state"], dead["exit_code"]) == ("Z", None)
    assert f"(pid {pid}) ended" in report["because"]
    assert "exit status 0" not in text
    check_undecided(report, text)


def test_a_child_whose_end_only_some_may_know(py_spy: str) -> None:
    with Program("hidden.py", "killed", str(NOBODY if ROOT else os.getuid())).hear("child") as program:
        refused, *allowed = looks(program.pid, py_spy, *(("nobody", "same") if ROOT else ("same",)))
        check_end_unknown(*refused, program.pids["child"])
        for report, text in allowed:
            dead = next(row for row in report["processes"] if row["pid"] == program.pids["child"])
            assert dead["exit_code"] == 9
            assert "killed by SIGKILL (9)" in text
            assert report["unchecked"] == []
