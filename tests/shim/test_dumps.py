"""Stacks that a job writes down itself, where py-spy may not look."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from mpmon.probes.door import Refused, words
from mpmon.probes.files import Proc
from mpmon.probes.libc import PIDFD_SEND_SIGNAL, call
from mpmon.probes.shim import stacks
from mpmon.probes.shim.stacks import ask, parse
from mpmon.probes.stacks import StackProbe
from mpmon.probes.users import name_of
from mpmon.shim.places import STACKS, Name, own_namespace, start_ticks
from tests.shim.running import Job, place
from tests.shim.test_records import wait_until_it_holds_the_gil
from tests.sleepers import sleeper

DUMPING = {"MPMON_DUMP_STACKS": "1"}
ANSWER = """\
Thread 0x00007f0000000002 [worker] (most recent call first):
  File "/a b/x.py", line 3 in f
  File "/lib/python3.14/threading.py", line 982 in run

Current thread 0x00007f0000000001 (most recent call first):
  File "/a b/x.py", line 5 in <module>
"""


def lines(rows) -> dict[int, list[str]]:
    return {s.tid: [f"{Path(f.file).name}:{f.line} in {f.function}" for f in s.frames] for s in rows}


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
        rows, unknowns = StackProbe(Proc(), executable="/bin/false").dump([job.pid, child], lambda: 7.0)
        assert not unknowns
        assert place("blocked.py", "FULL", "produce") in lines(rows[child])[child]
        found = lines(rows[job.pid])
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


# Somebody else's file


CATCHES = """
import os, signal, sys
def tell(*_): print('signalled', flush=True)
signal.signal(signal.SIGURG, tell)
if len(sys.argv) > 1: os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
print('ready', flush=True)
for line in sys.stdin: print(line, end='', flush=True)
"""
"""Says when it gets the signal, and whatever it is told."""

STRANGER = 1001

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away and make devices")


class Catching:
    """A process that catches SIGURG, and the file in which its stacks are looked for."""

    def __init__(self, child, folder: Path) -> None:
        self.pid: int = child.pid
        self._child = child
        self.file = folder / Name(child.pid, start_ticks(child.pid) or 0, own_namespace()).file(STACKS)

    def was_signalled(self) -> bool:
        """A signal that was sent is told before anything that it is told afterwards."""
        self._child.stdin.write("echo\n")
        self._child.stdin.flush()
        return self._child.stdout.readline() == "signalled\n"


@contextmanager
def catching(folder: Path, *arguments: str, **environment: str) -> Generator[Catching]:
    variables = {**os.environ, "MPMON_RUN_DIR": str(folder), **DUMPING, **environment}
    with sleeper(CATCHES, arguments=arguments, env=variables) as child:
        yield Catching(child, folder)


def own_file(path: Path) -> None:
    path.touch(mode=0o600)


def never() -> NoReturn:
    raise AssertionError("it would be signalled")


def test_one_that_does_not_answer_gets_one_signal(tmp_path: Path) -> None:
    with catching(tmp_path) as job:
        own_file(job.file)
        assert ask(Proc(), job.pid, lambda: 7.0) == ()
        assert job.was_signalled()


@pytest.mark.parametrize("environment", [{"MPMON_DUMP_STACKS": ""}, {"MPMON_RUN_DIR": "/none"}], ids=str)
def test_a_file_alone_is_no_reason_for_a_signal(environment: dict[str, str], tmp_path: Path) -> None:
    """Every program written in Go catches this one."""
    with catching(tmp_path, **environment) as job:
        own_file(job.file)
        assert ask(Proc(), job.pid, never) == ()
        assert not job.was_signalled()


def test_nor_is_a_process_that_does_not_catch_it(tmp_path: Path) -> None:
    with sleeper(env={**os.environ, "MPMON_RUN_DIR": str(tmp_path), **DUMPING}) as child:
        own_file(Catching(child, tmp_path).file)
        assert ask(Proc(), child.pid, never) == ()


def shared(path: Path) -> None:
    own_file(path)
    path.chmod(0o620)


def given_away(path: Path) -> None:
    own_file(path)
    os.chown(path, STRANGER, STRANGER)


def with_two_names(path: Path) -> None:
    other = path.with_name("other")
    own_file(other)
    path.hardlink_to(other)


OTHERS: dict[str, Callable[[Path], object]] = {
    "is a named pipe, not a regular file": os.mkfifo,
    "is a folder, not a regular file": Path.mkdir,
    "is a symbolic link, not a regular file": lambda path: path.symlink_to("/dev/kmsg"),
    "is a device, not a regular file": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    "has 2 hard links": with_two_names,
    f"may be written by others than {name_of(os.geteuid())}: chmod go-w": shared,
    f"belongs to {name_of(STRANGER)}, not to root": given_away,
}


@needs_root
@pytest.mark.parametrize("why", OTHERS)
def test_what_is_no_file_of_the_process_is_not_read_and_nobody_is_asked(why: str, tmp_path: Path) -> None:
    with catching(tmp_path) as job:
        OTHERS[why](job.file)
        with pytest.raises(Refused) as refusal:
            ask(Proc(), job.pid, never)
        assert (words(refusal.value), refusal.value.filename) == (why, str(job.file))
        assert not job.was_signalled()


@needs_root
def test_whose_file_it_is_stands_in_the_report(tmp_path: Path) -> None:
    with catching(tmp_path, str(STRANGER)) as job:
        own_file(job.file)
        os.chown(job.file, 65534, 65534)
        _, unknowns = StackProbe(Proc(), executable="/bin/false").dump([job.pid], lambda: 7.0)
        assert unknowns[job.pid].reason == (
            "py-spy: failed without a message; the stacks it would write itself are not trusted: "
            f"{job.file} belongs to {name_of(65534)}, not to {name_of(STRANGER)}"
        )
        assert not job.was_signalled()


def test_the_answer_is_read_from_the_file_that_was_there_before_the_signal(tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path, **DUMPING) as job:
        job.hear()
        job.hear()
        (path,) = tmp_path.glob(f"{job.pid}.*{STACKS}")

        def swap() -> float:
            path.rename(tmp_path / "old")
            os.mkfifo(path)
            return 7.0

        assert len(lines(ask(Proc(), job.pid, swap))) == 2
        path.unlink()


def test_a_process_that_ends_before_the_signal_is_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def kill_first(number: int, *arguments: int) -> int:
        if number == PIDFD_SEND_SIGNAL:
            child.kill()
            child.wait()
        try:
            return call(number, *arguments)
        except ProcessLookupError as problem:
            sent.append(str(problem))
            raise

    monkeypatch.setattr(stacks, "call", kill_first)
    with sleeper(CATCHES, env={**os.environ, "MPMON_RUN_DIR": str(tmp_path), **DUMPING}) as child:
        own_file(Catching(child, tmp_path).file)
        assert ask(Proc(), child.pid, lambda: 7.0) == ()
    assert len(sent) == 1
