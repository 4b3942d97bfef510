"""The doctor says what can be read, and why not, from facts of a real or of a made /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mpmon.doctor import Check, checkup, exit_status, machine, render, rights, stacks, tools
from mpmon.doctor.check import PROC
from mpmon.doctor.tools import check_py_spy
from mpmon.probes.native.samples import NotSampled
from mpmon.probes.nvml.wire import Look
from mpmon.probes.rights import why_unreadable
from mpmon.probes.stacks import find_py_spy
from tests.nvml import Scenario
from tests.nvml.fixture import Standin

SYS_PTRACE = 1 << 19
READY = "print('ready', flush=True); import sys; sys.stdin.read()"
SAMPLES = "C frames of running threads"
Uids = tuple[int, int, int]
Executable = Callable[[str], str]


class FakeProc:
    """A made /proc: mpmon as uid 1000 without capabilities, and processes as each test wants them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.status("self")

    def status(
        self, name: int | str, *, uids: Uids = (1000, 1000, 1000), state: str = "S", capabilities: int = 0,
        tracer: int = 0, seccomp: int = 0, namespace: str = "",
    ) -> None:  # fmt: skip
        folder = self.root / str(name)
        folder.mkdir(exist_ok=True)
        (folder / "status").write_text(
            f"Name:\tpython\nState:\t{state} (words)\nPPid:\t7\nTracerPid:\t{tracer}\n"
            f"Uid:\t{uids[0]}\t{uids[1]}\t{uids[2]}\t{uids[1]}\nNSpid:\t{namespace or 1}\n"
            f"CapPrm:\t{capabilities:016x}\nCapEff:\t{capabilities:016x}\nSeccomp:\t{seccomp}\n",
            encoding="utf-8",
        )

    def yama(self, scope: int) -> None:
        folder = self.root / "sys/kernel/yama"
        folder.mkdir(parents=True)
        (folder / "ptrace_scope").write_text(f"{scope}\n", encoding="utf-8")

    def python(self, pid: int) -> None:
        (self.root / str(pid) / "exe").symlink_to("/usr/bin/python3.11")

    def not_dumpable(self, pid: int) -> None:
        """Its files belong to root, as /etc/passwd does."""
        (self.root / str(pid) / "environ").symlink_to("/etc/passwd")

    def why(self, pid: int) -> str:
        return why_unreadable(pid, self.root)

    def check(self, pid: int | None, name: str) -> Check:
        return named(checkup(pid, self.root), name)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    """A made /proc, and no driver to ask."""
    monkeypatch.setattr(machine, "look_once", lambda _: Look(problem="none", harmless=True))
    return FakeProc(tmp_path)


def named(checks: tuple[Check, ...], name: str) -> Check:
    return next(check for check in checks if check.name == name)


@contextmanager
def started(*command: str) -> Generator[int]:
    """A process that has said its first word; it ends with its standard input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def test_gone(fake: FakeProc) -> None:
    assert fake.why(42) == "pid 42 has ended"


def test_zombie(fake: FakeProc) -> None:
    fake.status(42, state="Z")
    assert fake.why(42) == "pid 42 is a zombie: it has ended and its parent, pid 7, has not reaped it"


def test_another_users(fake: FakeProc) -> None:
    fake.status(42, uids=(0, 0, 0))
    assert "pid 42 belongs to root and mpmon runs as" in fake.why(42)


def test_a_user_without_a_name(fake: FakeProc) -> None:
    fake.status(42, uids=(987654, 987654, 987654))
    assert "belongs to uid 987654" in fake.why(42)


def test_not_dumpable(fake: FakeProc) -> None:
    fake.status(42)
    fake.not_dumpable(42)
    assert "cleared its dumpable flag" in fake.why(42)
    assert fake.check(42, "dumpable, pid 42").ok is False


@pytest.mark.parametrize(
    ("scope", "words"),
    [(1, "sudo sysctl kernel.yama.ptrace_scope=0"), (2, "run mpmon as root"), (3, "until the next boot")],
)
def test_yama(fake: FakeProc, scope: int, words: str) -> None:
    fake.status(42)
    fake.yama(scope)
    assert words in fake.why(42)
    assert fake.check(None, "Yama").ok is False


def test_yama_lets_the_capability_pass(fake: FakeProc) -> None:
    fake.status("self", uids=(0, 0, 0), capabilities=SYS_PTRACE)
    fake.yama(2)
    assert fake.check(None, "Yama").ok is True


def test_more_capabilities_than_ours(fake: FakeProc) -> None:
    fake.status(42, capabilities=1)
    assert "--cap-add SYS_PTRACE" in fake.why(42)


def test_root_in_a_container(fake: FakeProc) -> None:
    fake.status("self", uids=(0, 0, 0), seccomp=2)
    check = fake.check(None, "other users' processes")
    assert check.ok is False
    assert "--cap-add SYS_PTRACE" in check.do_this
    assert "kubectl debug --profile=general" in check.do_this
    assert fake.check(None, "seccomp").ok is None


def test_seccomp_is_the_last_suspect(fake: FakeProc) -> None:
    fake.status("self", seccomp=2)
    fake.status(42)
    fake.python(42)
    assert "seccomp filter" in fake.why(42)
    fake.yama(1)
    assert "Yama" in fake.why(42)


def test_not_python(fake: FakeProc) -> None:
    fake.status(42)
    (fake.root / "42/exe").symlink_to("/usr/bin/bash")
    (fake.root / "42/maps").write_text("", encoding="utf-8")
    assert "is not a Python process" in fake.why(42)
    assert fake.check(42, "Python in pid 42").ok is False


def test_nothing_forbids_it(fake: FakeProc) -> None:
    fake.status(42)
    fake.python(42)
    assert "mpmon doctor 42" in fake.why(42)


def test_the_doctor_does_not_send_to_itself(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.status(42)
    fake.python(42)
    monkeypatch.setattr(stacks, "PROC", fake.root)
    monkeypatch.setattr(stacks, "answer_of", lambda _: (1, "refused"))
    assert stacks.check_target_stacks(42, fake.root).do_this == stacks.HIDDEN_RULE


def test_tracer_state_and_namespace(fake: FakeProc) -> None:
    fake.status(42, state="T", tracer=99, namespace="42\t7")
    assert "pid 99" in fake.check(42, "tracer of pid 42").because
    assert "kill -CONT 42" in fake.check(42, "state of pid 42").do_this
    assert "where it is pid 7" in fake.check(42, "namespace of pid 42").because


def test_private_files_that_are_missing(fake: FakeProc) -> None:
    fake.status(42)
    (fake.root / "42/io").write_text("rchar: 1\n", encoding="utf-8")
    assert fake.check(42, "how much it reads and writes").ok is True
    assert fake.check(42, "what its threads wait in").ok is False


def test_an_empty_proc_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "look_once", lambda _: Look(problem="none", harmless=True))
    checks = checkup(42, tmp_path)
    assert named(checks, "own rights").ok is None
    assert exit_status(checks) == 1


def test_missing_kernel_files_are_named(fake: FakeProc) -> None:
    (fake.root / "self/schedstat").write_text("", encoding="utf-8")
    because = fake.check(None, "kernel's files").because
    assert "wchan" in because
    assert "schedstat" not in because


def test_samples_are_not_tried_on_another_machines_proc(fake: FakeProc) -> None:
    assert fake.check(None, SAMPLES).ok is None


def test_samples_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise NotSampled("perf_event_paranoid is 4", "run mpmon as root")

    monkeypatch.setattr(rights, "check_sampling", refused)
    assert rights.check_samples(PROC) == Check(
        SAMPLES, ok=False, because="perf_event_paranoid is 4", do_this="run mpmon as root"
    )


def test_samples_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "check_sampling", lambda: None)
    assert rights.check_samples(PROC).ok is True


def test_shared_memory(fake: FakeProc) -> None:
    assert fake.check(None, "/dev/shm").ok is False
    (fake.root / "self/mounts").write_text("tmpfs /dev/shm tmpfs rw 0 0\n", encoding="utf-8")
    assert fake.check(None, "/dev/shm").ok is None


def test_this_machine_and_a_python_of_ours() -> None:
    with started(sys.executable, "-c", READY) as pid:
        checks = checkup(pid)
        stacks = named(checks, f"stacks of pid {pid}")
        status, _ = py_spy(pid)
        assert stacks.ok is (status == 0)
        assert exit_status(checks) == (0 if stacks.ok else 1)
        assert named(checks, f"Python in pid {pid}").ok is True
        assert named(checks, "py-spy").ok is True
        assert named(checks, "Python").ok is True


def py_spy(pid: int) -> tuple[int, object]:
    """What py-spy itself can do here."""
    executable = find_py_spy()
    assert executable is not None
    command = [executable, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.returncode, json.loads(done.stdout or b"[]")


def test_a_process_with_a_name_that_would_act_on_the_terminal() -> None:
    name = 'import ctypes; ctypes.CDLL(None).prctl(15, b"a\\x1b[31m\\x9b2J", 0, 0, 0); '
    with started(sys.executable, "-c", name + READY) as pid:
        text = render(checkup(pid))
    assert r"a\x1b[31m" in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_py_spy_that_does_not_end(executable: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "DEADLINE_S", 0.5)
    assert "no answer within 0.5 s" in check_py_spy(executable("exec sleep 1000")).because


def test_this_machine_and_a_process_that_is_not_python() -> None:
    with started("/bin/sh", "-c", "echo ready; read line") as pid:
        checks = checkup(pid)
        assert exit_status(checks) == 1
        assert named(checks, f"stacks of pid {pid}").ok is False
        assert named(checks, f"Python in pid {pid}").ok is False


def test_this_machine_and_a_script_that_runs_a_python() -> None:
    with started("/bin/sh", "-c", f'"{sys.executable}" -c "{READY}"; true') as pid:
        checks = checkup(pid)
        python = named(checks, f"Python in pid {pid}")
        assert python.ok is True
        assert "judges the Python process below it" in python.because
        assert named(checks, f"stacks of pid {psutil.Process(pid).children()[0].pid}").ok is (exit_status(checks) == 0)


def test_this_machine_and_a_zombie() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        checks = checkup(process.pid)
        assert "zombie" in named(checks, f"state of pid {process.pid}").because
        assert exit_status(checks) == 1
        assert "mpmon doctor" in named(checks, f"state of pid {process.pid}").do_this


def test_this_machine_and_nobody() -> None:
    checks = checkup(99999999)
    assert named(checks, "stacks of pid 99999999").because == "there is no such process here"
    assert exit_status(checks) == 1


def test_this_machine_alone() -> None:
    checks = checkup(None)
    assert named(checks, "stacks of a child").ok is (exit_status(checks) == 0)
    assert named(checks, "NVIDIA driver").because


@pytest.fixture
def executable(tmp_path: Path) -> Executable:
    """Makes a shell script, gives its path."""

    def make(code: str) -> str:
        path = tmp_path / "py-spy"
        path.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("code", "ok", "words"),
    [
        ("echo py-spy 0.4.3", True, "0.4.3 at"),
        ("echo py-spy 1.0.0", True, "1.0.0 at"),
        ("echo py-spy 0.3.14", False, "too old"),
        ("echo cannot execute; exit 1", False, "does not run: cannot execute"),
    ],
)
def test_py_spys_version(executable: Executable, code: str, ok: bool, words: str) -> None:
    check = check_py_spy(executable(code))
    assert check.ok is ok
    assert words in check.because


@pytest.mark.parametrize("path", [None, "/nonexistent/py-spy"])
def test_no_py_spy(path: str | None) -> None:
    check = check_py_spy(path)
    assert check.ok is False
    assert "pip install" in check.do_this


def test_no_driver_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        machine, "look_once", lambda _: Look(problem="no NVIDIA driver here", harmless=True, final=True)
    )
    assert machine.check_gpu() == Check(
        "NVIDIA driver", ok=None, because="no NVIDIA driver here; GPU columns stay empty, all else works"
    )


def test_a_driver_that_answers(nvml: Standin) -> None:
    nvml.say(Scenario(gpus=2))
    check = machine.check_gpu()
    assert (check.ok, check.because.partition(", queried")[0]) == (True, "2 GPUs, driver 580.95.05")


def test_a_lost_gpu(nvml: Standin) -> None:
    nvml.say(Scenario(gpus=2).lost(1))
    check = machine.check_gpu()
    assert check.ok is False
    assert check.because.startswith("GPU 1: the GPU is lost")


def test_a_driver_that_blocks(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "DEADLINE_S", 0.5)
    nvml.say(Scenario().hangs("nvmlInitWithFlags"))
    check = machine.check_gpu()
    assert (check.ok, check.because) == (False, "the NVIDIA driver did not answer within 0.5 s")


def test_aligned_text() -> None:
    checks = (Check("one", ok=True, because="it is"), Check("another", ok=None, because="who knows", do_this="ask"))
    assert render(checks) == (
        "ok       one      it is\n"
        "note     another  who knows\n"
        "                  do: ask"
    )  # fmt: skip


def test_the_named_process_decides_the_exit_status() -> None:
    child, target = Check("stacks of a child", ok=True, because=""), Check("stacks of pid 1", ok=False, because="")
    assert exit_status((child,)) == 0
    assert exit_status((child, target)) == 1
    assert exit_status(()) == 1
