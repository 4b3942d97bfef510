"""The jobs of this machine: found by what they are, named by their topmost process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mpmon import demo
from mpmon.errors import CannotTell
from mpmon.jobs import Job, age, choose, describe, running_jobs
from mpmon.probes.machine import Machine
from mpmon.probes.maps import MAPS_LIMIT
from mpmon.probes.rights import is_python, user_name

WAIT = "print('ready', flush=True); import sys; sys.stdin.read()"
TORCH_THREAD = f"""
import ctypes, threading
started = threading.Event()
def work():
    ctypes.CDLL(None).prctl(15, b"pt_tcpstore_uv", 0, 0, 0)
    started.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
started.wait()
{WAIT}
"""
"""A thread with a name that torch gives (PR_SET_NAME is 15 in <linux/prctl.h>)."""
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def started(*command: str) -> Generator[tuple[int, str]]:
    """A process and the first line it says; it ends with its standard input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()


def job(**changes: object) -> Job:
    facts: dict[str, object] = {
        "root_pid": 4100,
        "start_time": 100.0,
        "user": "ann",
        "cmdline": ("python", "train.py"),
        "processes": 3,
        "why": ("torch is loaded",),
        "age_s": 65.0,
    }
    return Job(**{**facts, **changes})  # pyright: ignore[reportArgumentType]


def found(pid: int) -> Job | None:
    return next((job for job in running_jobs() if job.root_pid == pid), None)


def test_a_forked_job_without_torch_is_found() -> None:
    with demo.start("lock-cycle") as running:
        seen = found(running.pid)
        assert seen is not None
        assert seen.processes == 3
        assert seen.why == ("multiprocessing, forked",)
        assert "mpmon.demo.scenes.lock_cycle" in seen.cmdline
        assert seen.start_time == psutil.Process(running.pid).create_time()
        assert seen.user == user_name(os.getuid())
        assert 0 <= seen.age_s < 120


def test_the_supervisor_and_we_are_no_jobs() -> None:
    with demo.start("dead") as running:
        supervisor = psutil.Process(running.pid).parent()
        assert supervisor is not None
        roots = {job.root_pid for job in running_jobs()}
        assert running.pid in roots
        assert not roots & {supervisor.pid, os.getpid(), os.getppid()}


def test_a_process_with_torchs_threads_is_found() -> None:
    with started(sys.executable, "-c", TORCH_THREAD) as (pid, _):
        seen = found(pid)
        assert seen is not None
        assert seen.why == ("torch's threads",)


def test_a_launcher_is_found_by_its_arguments(tmp_path: Path) -> None:
    launcher = tmp_path / "torchrun"
    launcher.write_text(WAIT, encoding="utf-8")
    with started(sys.executable, str(launcher), "train.py") as (pid, _):
        seen = found(pid)
        assert seen is not None
        assert seen.why == ("torchrun",)


def test_an_ordinary_python_is_no_job() -> None:
    with started(sys.executable, "-c", WAIT) as (pid, _):
        assert found(pid) is None


def test_the_newest_comes_first() -> None:
    with demo.start("dead") as older, demo.start("lock-cycle") as newer:
        order = [job.root_pid for job in running_jobs() if job.root_pid in {older.pid, newer.pid}]
        assert order == [newer.pid, older.pid]


def test_a_job_is_named_by_the_python_that_started_it() -> None:
    with started(sys.executable, "-c", PARENT, sys.executable, "-c", TORCH_THREAD) as (parent, child):
        assert Machine().top(int(child)) == parent
        seen = found(parent)
        assert seen is not None
        assert seen.processes == 2
        assert found(int(child)) is None


def test_climbing_stops_at_a_shell() -> None:
    shell = 'echo $$; "$0" -c "$1"; true'
    with started("/bin/sh", "-c", shell, sys.executable, TORCH_THREAD) as (_, said):
        child = wait_for_child(int(said))
        assert Machine().top(child) == child


def wait_for_child(pid: int) -> int:
    """The first child; the shell has said that it is about to start one."""
    process = psutil.Process(pid)
    while True:
        for child in process.children():
            if "python" in child.name():
                return child.pid


def test_climbing_from_nowhere() -> None:
    assert Machine().top(99999999) == 99999999


def fake_process(proc: Path, pid: int, ppid: int, command: str) -> Path:
    folder = proc / str(pid)
    folder.mkdir()
    fields = ["S", str(ppid), *["0"] * 17, "500", *["0"] * 10]
    (folder / "stat").write_text(f"{pid} (odd) name) {' '.join(fields)}\n", encoding="utf-8")
    (folder / "cmdline").write_text(command.replace(" ", "\0"), encoding="utf-8")
    return folder


def test_what_may_not_be_read_is_tolerated(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n", encoding="utf-8")
    fake_process(tmp_path, 10, 1, "/usr/bin/python3 -m torch.distributed.run train.py")
    fake_process(tmp_path, 11, 10, "/usr/bin/python3 -u train.py")
    fake_process(tmp_path, 12, 1, "")
    (tmp_path / "13").mkdir()
    (seen,) = running_jobs(str(tmp_path))
    assert (seen.root_pid, seen.processes, seen.why) == (10, 2, ("torchrun",))
    assert seen.start_time == 1000 + 500 / os.sysconf("SC_CLK_TCK")
    assert Machine(str(tmp_path)).top(11) == 10


def test_of_a_list_of_mappings_only_a_part_is_read(tmp_path: Path) -> None:
    """Sparse, so that it costs nothing; behind the limit stands what would tell of torch."""
    folder = fake_process(tmp_path, 10, 1, "/usr/bin/python3 train.py")
    with (folder / "maps").open("wb") as maps:
        maps.seek(MAPS_LIMIT)
        maps.write(b"libtorch libpython")
    assert running_jobs(str(tmp_path)) == ()
    assert is_python(10, tmp_path) is not True
    with (folder / "maps").open("r+b") as maps:
        maps.write(b"libtorch libpython")
    assert [job.why for job in running_jobs(str(tmp_path))] == [("torch is loaded",)]


def test_a_notebook_server_is_not_part_of_the_job(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, "/usr/bin/python3 /usr/bin/jupyter-lab")
    fake_process(tmp_path, 11, 10, "/usr/bin/python3 -m ipykernel_launcher")
    assert Machine(str(tmp_path)).top(11) == 11


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m mpmon 4100",
        "python3 /usr/bin/mpmon",
        "python3 -I /lib/mpmon/start.py mpmon.demo.supervisor x /lib",
        "python3 -I -S /lib/mpmon/start.py mpmon.probes.nvml.helper {} 7 /lib",
        "python3 -I /lib/mpmon/start.py mpmon 4100 /lib",
    ],
)
def test_mpmon_is_not_part_of_the_job(tmp_path: Path, command: str) -> None:
    fake_process(tmp_path, 10, 1, command)
    fake_process(tmp_path, 11, 10, "python3 train.py")
    assert Machine(str(tmp_path)).top(11) == 11


@pytest.mark.parametrize(
    "command", ["python3 -I /lib/mpmon/start.py mpmon.demo.scenes.loader /lib", "python3 -m mpmonitor"]
)
def test_a_scene_of_the_demo_is_a_job_like_others(tmp_path: Path, command: str) -> None:
    fake_process(tmp_path, 10, 1, command)
    fake_process(tmp_path, 11, 10, "python3 train.py")
    assert Machine(str(tmp_path)).top(11) == 10


def test_choosing_from_nothing() -> None:
    with pytest.raises(CannotTell) as failure:
        choose((), io.StringIO(), io.StringIO())
    assert "mpmon demo" in failure.value.remedy


def test_a_single_job_is_taken_at_once() -> None:
    said = io.StringIO()
    assert choose((job(),), io.StringIO(), said) == job()
    assert "pid 4100" in said.getvalue()


@pytest.mark.parametrize(("answer", "chosen"), [("2\n", 4200), ("\n", 4100), ("9\nx\n²\n-1\n2\n", 4200)])
def test_choosing_by_number(answer: str, chosen: int) -> None:
    jobs = (job(), job(root_pid=4200))
    assert choose(jobs, io.StringIO(answer), io.StringIO()).root_pid == chosen


def test_jobs_to_choose_from_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = io.StringIO()
    choose(
        (job(cmdline=("python", "x" * 100)), job(cmdline=("python", "\x1b[31mred"), root_pid=4200)),
        io.StringIO("1\n"),
        said,
    )
    lines = said.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].endswith("x…")
    assert lines[2] == r"  2  pid 4200  python \x1b[31mred"


@pytest.mark.parametrize("answer", ["", "q\n", "x\nQ\n"])
def test_choosing_nothing(answer: str) -> None:
    with pytest.raises(CannotTell, match="no job was chosen"):
        choose((job(), job()), io.StringIO(answer), io.StringIO())


def test_what_a_job_was_recognised_by_is_said_once() -> None:
    signs = ("multiprocessing, resource tracker", "multiprocessing, spawned")
    assert describe(job(why=signs)).endswith("; multiprocessing, resource tracker, spawned)")


def test_a_job_in_one_line() -> None:
    expected = "pid 4100  python train.py  (3 processes, 65 s old, ann; torch is loaded)"
    assert describe(job()) == expected
    assert "…" in describe(job(cmdline=("python", "x" * 100)))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (2e5, "2 d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text
