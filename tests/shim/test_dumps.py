"""Stacks that a job writes down itself, where py-spy may not look."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from mpmon.probes.files import Proc
from mpmon.probes.shim.stacks import ask, parse
from mpmon.probes.stacks import StackProbe
from tests.shim.running import Job, place
from tests.shim.test_records import wait_until_it_holds_the_gil

DUMPING = {"MPMON_DUMP_STACKS": "1"}
ANSWER = """\
Thread 0x00007f0000000002 [worker] (most recent call first):
  File "/a b/x.py", line 3 in f
  File "/lib/python3.14/threading.py", line 982 in run

Current thread 0x00007f0000000001 (most recent call first):
  File "/a b/x.py", line 5 in <module>
"""


def lines(stacks) -> dict[int, list[str]]:
    return {s.tid: [f"{Path(f.file).name}:{f.line} in {f.function}" for f in s.frames] for s in stacks}


def test_the_main_thread_comes_last() -> None:
    assert lines(parse(ANSWER, 7, [7, 9], 1.0)) == {
        7: ["x.py:5 in <module>"], 9: ["x.py:3 in f", "threading.py:982 in run"],
    }  # fmt: skip


def test_threads_that_cannot_be_told_apart_are_left_out() -> None:
    assert lines(parse(ANSWER, 7, [7, 8, 9], 1.0)) == {7: ["x.py:5 in <module>"]}


@pytest.mark.parametrize("answer", ["", "\0\0", "Thread 0x1", '  File "x", line 1 in f\n', ANSWER[:60]])
def test_an_answer_that_is_cut_is_no_failure(answer: str) -> None:
    assert all(not stack.frames for stack in parse(answer, 7, [7], 1.0))


@pytest.mark.parametrize("holds_gil", [False, True])
def test_where_py_spy_fails_the_job_is_asked(holds_gil: bool, tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path, **DUMPING) as job:
        child = job.hear_pid()
        job.hear()
        if holds_gil:
            job.tell("hold")
            wait_until_it_holds_the_gil(job.pid)
        stacks, unknowns = StackProbe(Proc(), executable="/bin/false").dump([job.pid, child], lambda: 7.0)
        assert not unknowns
        assert place("blocked.py", "FULL", "produce") in lines(stacks[child])[child]
        found = lines(stacks[job.pid])
        assert len(found) == 2, "the main thread, and the one that waits in get"
        innermost = "hold_gil" if holds_gil else "wait_for_word"
        assert found[job.pid][0].endswith(f" in {innermost}")
        assert psutil.Process(child).is_running()


def test_a_job_that_was_not_started_so_gets_no_signal(tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path) as job:
        job.hear()
        job.hear()
        assert ask(Proc(), job.pid, lambda: 7.0) == ()
        assert list(tmp_path.glob("*.stacks")) == []


def test_a_stopped_job_does_not_answer(tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path, **DUMPING) as job:
        job.hear()
        job.hear()
        os.kill(job.pid, signal.SIGSTOP)
        while psutil.Process(job.pid).status() != psutil.STATUS_STOPPED:
            pass
        assert ask(Proc(), job.pid, lambda: 7.0) == ()


def test_nothing_is_asked_of_one_that_is_gone() -> None:
    assert ask(Proc(), 2**22 + 1, lambda: 7.0) == ()
