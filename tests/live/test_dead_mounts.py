"""mpmon attached to jobs that have to do with a file system that does not answer: it answers, and says which one it is.

All jobs of one mood share a mount, and mpmon looks at several of them at a time, because a look takes as long as a hang
takes to be one.  Limits of time are guards only: what they end has failed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.deadfs.jobs import PROGRAMS, job
from tests.deadfs.mounting import MOODS, Mount, needs_fuse
from tests.live.running import REPOSITORY, Program
from tests.patience import becomes, left_of, patience, rest_of
from tests.tui.tmux import Terminal

pytestmark = [pytest.mark.live, needs_fuse]

AT_ONCE = 6
"""Looks at a time."""

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")

STANDS = ("read", "cached", "opens", "closes", "fault", "flush", "leaves")
WITH_LINE = ("read", "cached", "opens", "closes", "fault", "flush")
"""Those whose stack can be read; `leaves` has none any more."""
PROVED = ("read", "cached", "opens", "fault")
"""The kernel function, or state D, leaves no other reading."""
LOADS = ("queue", *(["torch"] if importlib.util.find_spec("torch") else []))
IDLES = ("descriptor", "folder", "first", "last", "records")
TOUCHING = ("descriptor", "first", "last", "records")
"""Those of which mpmon itself would ask the file system something."""
BESIDE = ("descriptor", "read", "opens", "fault")
"""What a job that hangs in a lock has to do with the file system besides."""


class Look:
    """One `mpmon`; before it is ended the mount has to answer, for it may be impossible to kill."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mpmon", *arguments], cwd=REPOSITORY, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._unread = ""

    def end(self) -> None:
        """With all it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def answer(self) -> Answer:
        """What it says by itself."""
        try:
            said, words = rest_of(self.process)
        except AssertionError:
            return Answer(None, {}, f"mpmon does not answer, it waits in {where(self.process.pid)}")
        report = json.loads(said) if said.startswith(b"{") else {}
        return Answer(self.process.returncode, report, words.decode())

    def said(self, *words: str) -> None:
        """Waits for a line of its standard output with all of these words; lines before it are passed over."""
        assert self.process.stdout
        for pause in patience():
            *lines, last = self._unread.split("\n")
            found = next((number for number, line in enumerate(lines) if all(word in line for word in words)), None)
            if found is not None:
                self._unread = "\n".join((*lines[found + 1 :], last))
                return
            if select.select([self.process.stdout], [], [], pause)[0]:
                more = os.read(self.process.stdout.fileno(), 1 << 16).decode()
                if not more:
                    break
                self._unread += more
        raise AssertionError(f"{words} not in {self._unread!r}, it waits in {where(self.process.pid)}")


class Answer(NamedTuple):
    """How `mpmon` ended, the report where it made one, and what it said on standard error."""

    status: int | None
    report: dict[str, Any]
    words: str

    def text(self) -> str:
        """What a person reads of findings and remarks."""
        rows = (*self.report.get("findings", ()), *self.report.get("remarks", ()))
        return "\n".join(line for row in rows for line in (row["summary"], *row["evidence"], *row["advice"]))


class Case(NamedTuple):
    """A job, what mpmon said of it, and whether it got on afterwards."""

    mount: Mount
    program: Program
    answer: Answer
    got_on: bool


def where(pid: int) -> str:
    """The kernel function and the state of each thread; empty of a process that is gone."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            state = Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[0]
            found.append(f"{Path(f'/proc/{pid}/task/{tid}/wchan').read_text()} ({state})")
    return ", ".join(found)


def gets_on(pid: int) -> bool:
    """The process runs further, within a while."""
    before = ran(pid)
    return becomes(lambda: ran(pid) != before, seconds=10.0)


def ran(pid: int) -> int:
    """Nanoseconds that its main thread has run: proc_pid_schedstat(5)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@contextmanager
def dead(mount: Mount, mood: str, name: str, *arguments: str, **environment: str) -> Iterator[Program]:
    """One job, gone on after the death of what it has open."""
    with job(mount, name, *arguments, **environment) as program:
        mount.be(mood)
        program.tell()
        yield program


@pytest.fixture(scope="module", params=MOODS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """Every job with the answer of `mpmon PID --once --json`; all of them have ended."""
    with Mount(tmp_path_factory.mktemp("dead")) as mount, ExitStack() as stack:
        programs = {
            **{name: stack.enter_context(job(mount, "stands.py", name)) for name in STANDS},
            **{name: stack.enter_context(job(mount, "loads.py", name)) for name in LOADS},
            **{name: stack.enter_context(idle(mount, name)) for name in IDLES},
        }
        for name in LOADS:
            programs[name].hear("child")
        mount.be(request.param)
        for program in programs.values():
            program.tell()
        with asked(mount, {name: (str(row.pid), "--once", "--json") for name, row in programs.items()}) as answers:
            got_on = {name for name in IDLES if gets_on(programs[name].pid)}
        return {name: Case(mount, row, answers[name], name in got_on) for name, row in programs.items()}


@contextmanager
def asked(mount: Mount, commands: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Answer]]:
    """What mpmon says to each of these, some at a time; at the end the mount answers and no mpmon is left."""
    looks: list[Look] = []

    def ask(arguments: Sequence[str]) -> Answer:
        look = Look(*arguments)
        looks.append(look)
        return look.answer()

    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = dict(zip(commands, pool.map(ask, commands.values()), strict=True))
        yield answers
    finally:
        end(mount, looks)


def end(mount: Mount, looks: Iterable[Look]) -> None:
    mount.be("answer")
    for look in looks:
        look.end()


def idle(mount: Mount, name: str) -> AbstractContextManager[Program]:
    """A job that gets on."""
    if name == "records":
        return job(mount, "idle.py", "nothing", MPMON_RUN_DIR=f"{mount.place}/run")
    return job(mount, "idle.py", name)


def finding(case: Case) -> dict[str, Any]:
    """The first one, of a job that hangs."""
    assert case.answer.status == 3, case.answer
    assert case.answer.report["verdict"] == "hung"
    return case.answer.report["findings"][0]


@pytest.mark.parametrize("name", [*STANDS, *LOADS, *IDLES])
def test_it_answers(cases: dict[str, Case], name: str) -> None:
    answer = cases[name].answer
    assert answer.status in (0, 3, 4), answer.words
    assert answer.words == ""


@pytest.mark.parametrize("name", WITH_LINE)
def test_a_job_that_stands_there_hangs(cases: dict[str, Case], name: str) -> None:
    case = cases[name]
    assert finding(case)["cause"] == "io-wait"
    assert case.mount.place in case.answer.text()
    assert case.mount.source in case.answer.text() or case.mount.kind in case.answer.text()


@pytest.mark.parametrize("name", PROVED)
def test_the_kernel_proves_it(cases: dict[str, Case], name: str) -> None:
    assert finding(cases[name])["certainty"] == "proved"


@pytest.mark.parametrize("name", WITH_LINE)
def test_the_line_is_named(cases: dict[str, Case], name: str) -> None:
    (suspect,) = finding(cases[name])["suspects"]
    program = cases[name].program
    assert (suspect["pid"], suspect["frame"]["file"]) == (program.pid, str(program.file))
    assert suspect["frame"]["line"] == program.line(f"# STUCK {name}$")


@pytest.mark.parametrize("name", ["queue", pytest.param("torch", marks=needs_torch)])
def test_a_worker_that_stands_there_is_to_blame(cases: dict[str, Case], name: str) -> None:
    case = cases[name]
    blamed = finding(case)
    assert blamed["cause"] == "io-wait"
    assert [row["pid"] for row in blamed["suspects"]] == [case.program.pids["child"]]
    assert [row["pid"] for row in blamed["waiters"]] == [case.program.pid]
    assert blamed["suspects"][0]["frame"]["line"] == case.program.line()
    assert case.mount.place in case.answer.text()


@pytest.mark.parametrize("name", IDLES)
def test_a_job_that_only_has_something_there_gets_on(cases: dict[str, Case], name: str) -> None:
    """Also while mpmon looks: a read of memory that waits would keep the lock of the job's mappings."""
    assert cases[name].got_on, cases[name].answer.words
    assert cases[name].answer.status != 3


@pytest.mark.parametrize("name", TOUCHING)
def test_a_remark_says_that_the_mount_does_not_answer(cases: dict[str, Case], name: str) -> None:
    case = cases[name]
    assert case.answer.status == 0, case.answer
    told = [row for row in case.answer.report["remarks"] if case.mount.place in row["summary"]]
    assert told, case.answer.report["remarks"]
    assert "has not answered for" in told[0]["summary"]
    assert told[0]["pids"] == [case.program.pid]


# A job that hangs, and not there


@pytest.fixture(scope="module", params=MOODS)
def beside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Case]]:
    """Every job with the answer of a whole report, and of one that ends with its first round."""
    options = {"whole": (), "first round": ("--for", "0.1")}
    with Mount(tmp_path_factory.mktemp("dead")) as mount, ExitStack() as stack:
        programs = {name: stack.enter_context(job(mount, "locks.py", name)) for name in BESIDE}
        mount.be(request.param)
        for program in programs.values():
            program.tell()
        commands = {
            f"{name} {look}": (str(row.pid), "--once", "--json", *more)
            for name, row in programs.items()
            for look, more in options.items()
        }
        with asked(mount, commands) as answers:
            return {
                look: {
                    name: Case(mount, row, answers[f"{name} {look}"], got_on=False) for name, row in programs.items()
                }
                for look in options
            }


@pytest.mark.parametrize("look", ["whole", "first round"])
@pytest.mark.parametrize("name", BESIDE)
def test_the_mount_is_named_beside_another_cause(beside: dict[str, dict[str, Case]], name: str, look: str) -> None:
    """Whenever the report is made: it waits for the deadline of the first question."""
    case = beside[look][name]
    (told,) = (row for row in case.answer.report["remarks"] if row["topic"] == "mount-silent")
    assert told["summary"].startswith(
        f"{case.mount.kind} {case.mount.source} on {case.mount.place} has not answered for"
    )
    assert told["pids"] == [case.program.pid]


@pytest.mark.parametrize("name", BESIDE)
def test_a_lock_is_the_cause_beside_a_mount_that_does_not_answer(beside: dict[str, dict[str, Case]], name: str) -> None:
    assert finding(beside["whole"][name])["cause"] == "lock-held"


# A job whose mappings are locked


@pytest.fixture(scope="module", params=MOODS)
def locked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """By command.  The job is by itself and short-lived: until the mount answers, everybody waits who reads its command line,
    `ps` too.
    """
    with Mount(tmp_path_factory.mktemp("dead")) as mount, dead(mount, request.param, "stands.py", "remap") as program:
        while psutil.Process(program.pid).status() != psutil.STATUS_DISK_SLEEP:
            time.sleep(0.01)
        commands = {"once": (str(program.pid), "--once", "--json"), "list": (), "doctor": ("doctor", str(program.pid))}
        with asked(mount, commands) as answers:
            return {name: Case(mount, program, answer, got_on=False) for name, answer in answers.items()}


@pytest.mark.parametrize("command", ["once", "list", "doctor"])
def test_it_answers_beside_a_process_whose_mappings_are_locked(locked: dict[str, Case], command: str) -> None:
    assert locked[command].answer.status is not None, locked[command].answer.words


def test_a_job_whose_mappings_are_locked_hangs(locked: dict[str, Case]) -> None:
    case = locked["once"]
    assert finding(case)["cause"] == "io-wait"
    assert case.mount.place in case.answer.text()


# One mount each


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with Mount(tmp_path) as mount:
        yield mount


@contextmanager
def looking(mount: Mount, *arguments: str) -> Iterator[Look]:
    """One mpmon, gone at the end."""
    look = Look(*arguments)
    try:
        yield look
    finally:
        end(mount, [look])


@pytest.mark.parametrize("mood", MOODS)
def test_ctrl_c_ends_a_look(mount: Mount, mood: str) -> None:
    options = ("--once", "--json")
    with dead(mount, mood, "idle.py", "descriptor") as program, looking(mount, str(program.pid), *options) as look:
        looker = psutil.Process(look.process.pid)
        while not asks(looker):
            assert look.process.poll() is None, "it has ended and asked the file system nothing"
        look.process.send_signal(signal.SIGINT)
        answer = look.answer()
        assert answer.status == 130, answer


def asks(looker: psutil.Process) -> bool:
    """It, or a helper of it, has asked the file system something and waits for the answer."""
    return any("request_wait_answer" in where(process.pid) for process in (looker, *looker.children(recursive=True)))


@pytest.mark.parametrize("mood", MOODS)
def test_lines_tell_that_it_stopped_and_that_it_answers_again(mount: Mount, mood: str) -> None:
    with job(mount, "idle.py", "descriptor") as program, looking(mount, str(program.pid), "--plain") as look:
        look.said("mpmon watches")
        mount.be(mood)
        look.said(mount.place, "has not answered for")
        mount.be("answer")
        look.said(mount.place, "no longer")


@needs_tmux
@pytest.mark.parametrize("mood", MOODS)
def test_the_screen_shows_it_and_can_be_left(mount: Mount, mood: str) -> None:
    with dead(mount, mood, "stands.py", "read") as program, Terminal(str(program.pid), size=(160, 40)) as terminal:
        try:
            terminal.shows("HUNG", "cause: io-wait", mount.source)
            looker = psutil.Process(terminal.program())
            started = looker.children(recursive=True)
            terminal.press("q")
            assert terminal.exit_status() == 0
            left = left_of(started)
            # Of one whose thread no signal reaches the rest is gone.
            assert {process.status() for process in left} <= {psutil.STATUS_DISK_SLEEP, psutil.STATUS_ZOMBIE}
        finally:
            mount.be("answer")


@pytest.mark.parametrize("mood", MOODS)
def test_a_mount_that_only_the_job_sees(tmp_path: Path, mood: str) -> None:
    contained = Program(str(PROGRAMS / "contained.py"), str(tmp_path))
    with contained.hear("alone") as program, Mount(tmp_path, program.pid) as mount:
        program.tell()
        program.hear("ready")
        mount.be(mood)
        program.tell()
        with looking(mount, str(program.pid), "--once", "--json") as look:
            case = Case(mount, program, look.answer(), got_on=False)
            assert finding(case)["cause"] == "io-wait"
            assert mount.place in case.answer.text()


@pytest.mark.parametrize("mood", MOODS)
def test_a_folder_that_the_user_names_ends_in_an_answer(mount: Mount, mood: str) -> None:
    options = ("--once", "--json", "--flight-recorder", f"{mount.place}/run")
    with dead(mount, mood, "idle.py", "nothing") as program, looking(mount, str(program.pid), *options) as look:
        answer = look.answer()
        assert answer.status is not None, answer.words


# A child that becomes another program


def become(mount: Mount, program: Program) -> None:
    """Its child stands in execve(2) now, where it keeps the lock that a reader of its `stat` takes.

    Short-lived: until the mount answers everybody waits who reads that, `ps` too.
    """
    mount.be("silent")
    program.tell()
    # Its arguments are those of the new program, which there are none of yet.
    while Path(f"/proc/{program.pids['child']}/cmdline").read_bytes():
        time.sleep(0.01)


@pytest.fixture(scope="module")
def becoming(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """By command."""
    with Mount(tmp_path_factory.mktemp("dead")) as mount, job(mount, "execs.py") as program:
        parent, child = program.pid, program.hear("child").pids["child"]
        become(mount, program)
        commands = {
            "once": (str(parent), "--once", "--json"), "child": (str(child), "--once", "--json"), "list": (),
            "doctor": ("doctor", str(child)),
        }  # fmt: skip
        with asked(mount, commands) as answers:
            return {name: Case(mount, program, answer, got_on=False) for name, answer in answers.items()}


@pytest.mark.parametrize("command", ["once", "child", "list", "doctor"])
def test_it_answers_beside_a_process_in_execve(becoming: dict[str, Case], command: str) -> None:
    answer = becoming[command].answer
    assert answer.status is not None, answer.words
    assert "Traceback" not in answer.words
    assert "defect" not in answer.words


def test_a_process_in_execve_is_not_taken_for_one_that_ended(becoming: dict[str, Case]) -> None:
    case = becoming["once"]
    rows = {row["pid"]: row for row in case.answer.report["processes"]}
    assert rows[case.program.pids["child"]]["state"] == "S"
    assert "the kernel does not answer" in json.dumps(case.answer.report)


@needs_tmux
def test_the_screen_can_be_left_beside_a_process_in_execve(mount: Mount) -> None:
    with job(mount, "execs.py") as program, Terminal(str(program.hear("child").pid), size=(160, 40)) as terminal:
        try:
            terminal.shows(str(program.pids["child"]), "waiting for data from a pipe")
            become(mount, program)
            terminal.shows("the kernel does not answer")
            terminal.press("q")
            assert terminal.exit_status() == 0
        finally:
            mount.be("answer")
