"""What only starts the job: a shell, `timeout`, `mpirun`, init. It is not judged; the Python below it is."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.roles import Role, roles
from mpmon.model import NOT_PYTHON, Process, Row, Unknown
from tests.builders import ROOT, START, blocked, diagnosed, process, snapshot, stack, thread

PROGRAM, SECOND, CHILD = 4121, 4122, 4130


def shell(pid: int = ROOT, *, parent: int = 1, state: str = "S") -> Process:
    return process(pid, parent=parent, name="bash", cmdline=("bash", "run.sh"), exe="/usr/bin/bash", state=state)


def init(pid: int = ROOT) -> Process:
    return process(pid, name="supervise", cmdline=("/sbin/supervise", "--all"), exe="/sbin/supervise")


def named(*rows: Process) -> dict[int, str]:
    return {pid: role.name for pid, role in roles(rows, {}, ROOT, {}, {}, given={}).items()}


def seen(*rows: Row, seconds: int = 14) -> Diagnosis:
    return diagnosed([snapshot(*rows, at=float(second)) for second in range(seconds)])


def stuck(pid: int, *, parent: int = ROOT) -> tuple[Row, ...]:
    """A Python program that sleeps without an end."""
    return (
        process(pid, parent=parent),
        stack("main", "train.py:9 main", pid=pid),
        blocked("clock_nanosleep", pid=pid, ran_at=START - 100),
    )


def sleeps(pid: int) -> Row:
    return blocked("clock_nanosleep", pid=pid, ran_at=START - 100)


def foreign(pid: int) -> Unknown:
    return Unknown(table="stacks", pid=pid, reason=NOT_PYTHON)


# Names


def test_the_python_that_a_shell_starts_is_the_main_program() -> None:
    assert named(shell(), process(PROGRAM, parent=ROOT)) == {ROOT: "shell", PROGRAM: "main"}


def test_another_program_that_starts_python_is_a_launcher() -> None:
    assert named(init(), process(PROGRAM, parent=ROOT)) == {ROOT: "launcher", PROGRAM: "main"}


def test_all_between_the_root_and_the_program_only_start_it() -> None:
    timeout = process(CHILD, parent=ROOT, name="timeout", cmdline=("timeout", "9", "python"), exe="/usr/bin/timeout")
    program = process(4140, parent=CHILD)
    assert named(shell(), timeout, program) == {ROOT: "shell", CHILD: "launcher", 4140: "main"}


def test_the_eldest_of_several_is_the_main_program_and_a_command_beside_it_is_none() -> None:
    copy = process(4119, parent=ROOT, name="cp", cmdline=("cp", "a", "b"), exe="/usr/bin/cp")
    found = named(shell(), copy, process(PROGRAM, parent=ROOT), process(SECOND, parent=ROOT))
    assert found == {ROOT: "shell", 4119: "subprocess cp", PROGRAM: "main", SECOND: "subprocess train.py"}


def test_ranks_below_a_shell_keep_their_names() -> None:
    ranks = [process(pid, parent=ROOT, environment={"RANK": str(pid - PROGRAM)}) for pid in (PROGRAM, SECOND)]
    assert named(shell(), *ranks) == {ROOT: "shell", PROGRAM: "rank 0", SECOND: "rank 1"}


def test_a_shell_that_python_starts_is_a_subprocess() -> None:
    found = named(process(), shell(CHILD, parent=ROOT), process(4140, parent=CHILD))
    assert found == {ROOT: "main", CHILD: "subprocess bash", 4140: "subprocess train.py"}


def test_a_program_with_python_inside_is_no_launcher_once_its_frames_were_read() -> None:
    rows = [init(), process(PROGRAM, parent=ROOT)]
    before = roles(rows, {}, ROOT, {}, {}, given={})
    found = roles(rows, {ROOT: [stack("main", "scene.py:3 render")]}, ROOT, before, {}, given={})
    assert found[ROOT] == Role(name="main", kind="main")
    assert found[PROGRAM].name == "subprocess train.py"


# Verdicts


@pytest.mark.parametrize("root", [shell(), init()])
def test_a_root_that_sleeps_is_no_hang_when_the_python_below_it_gets_on(root: Process) -> None:
    def rows(second: int) -> tuple[Row, ...]:
        return (
            root, sleeps(ROOT), foreign(ROOT), process(PROGRAM, parent=ROOT), thread(PROGRAM, slices=10 * second),
            stack("main", f"train.py:{9 + second % 3} main", pid=PROGRAM, at=second), sleeps(PROGRAM),
        )  # fmt: skip

    found = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert found.verdict is Verdict.HEALTHY
    assert "is not Python: only its Python descendants count" in found.because


def test_a_hang_below_a_shell_is_told_as_that_of_the_program() -> None:
    found = seen(shell(), blocked("wait4", "process:any"), foreign(ROOT), *stuck(PROGRAM))
    assert found.verdict is Verdict.HUNG
    assert found.findings[0].summary.startswith("main has been asleep")
    assert found.findings[0].waiters == ()


def test_each_program_below_the_root_counts() -> None:
    found = seen(init(), sleeps(ROOT), foreign(ROOT), *stuck(PROGRAM), *stuck(SECOND))
    assert {suspect.pid for finding in found.findings for suspect in finding.suspects} == {PROGRAM, SECOND}


@pytest.mark.parametrize("root", [shell(), init()])
def test_a_root_without_any_python_below_it_is_not_judged(root: Process) -> None:
    unread = process(CHILD, parent=ROOT, name="tail", cmdline=("tail", "-f"), exe="/usr/bin/tail")
    found = seen(root, sleeps(ROOT), foreign(ROOT), unread, sleeps(CHILD))
    assert found.verdict is Verdict.UNKNOWN
    assert "is not a Python process and has no Python descendants" in found.because


def test_a_stopped_shell_is_told() -> None:
    found = seen(shell(state="T"), blocked(None, state="T"), foreign(ROOT), process(PROGRAM, parent=ROOT))
    assert found.findings[0].cause == "stopped"
    assert found.findings[0].suspects[0].role == "shell"
