"""`mpmon run` between a job and those who signal it: all that is meant for the job reaches it, and once."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mpmon.launch import IGNORED_BY_PYTHON, LEFT
from tests.patience import becomes, status_of
from tests.shim.running import PROGRAMS
from tests.shim.test_run import MPMON, Terminal, started, terminal, variables

HEARS = [sys.executable, str(PROGRAMS / "hears.py")]
IGNORED = {
    number for number in signal.valid_signals() - IGNORED_BY_PYTHON if signal.getsignal(number) is signal.SIG_IGN
}  # fmt: skip
"""As all that is started with nohup ignores SIGHUP, the tests included."""

PASSED_ON = sorted(signal.valid_signals() - LEFT - IGNORED - {signal.SIGTERM, signal.SIGTSTP})
"""SIGTERM ends the job, SIGTSTP stops mpmon too: they are tried alone."""

RING = signal.SIGUSR2
"""Sent behind another one: what comes before it is all there was."""


def command(*options: str) -> list[str]:
    return ["run", *options, "--", *HEARS]


def heard(running: subprocess.Popen[str], after: str = "") -> str:
    """The next line of the job, said after this."""
    assert running.stdout
    line = running.stdout.readline()
    assert line, f"it has ended, or has been silent for too long {after}"
    return line.strip()


def before_the_ring(running: subprocess.Popen[str]) -> list[str]:
    """What it hears until then."""
    running.send_signal(RING)
    return list(iter(lambda: heard(running), str(int(RING))))


def test_every_signal_reaches_the_job(tmp_path: Path) -> None:
    with started(tmp_path, *command("--headless")) as running:
        assert heard(running).startswith("up ")
        for number in PASSED_ON:
            running.send_signal(number)
            assert heard(running, f"after signal {number}") == str(int(number))
        running.send_signal(signal.SIGTERM)
        assert status_of(running) == 9


def test_the_kinds_that_are_passed_on() -> None:
    named = {
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGUSR1",
        "SIGUSR2",
        "SIGALRM",
        "SIGCONT",
        "SIGWINCH",
        "SIGPIPE",
        "SIGABRT",
    }
    assert named <= {number.name for number in {*PASSED_ON, *IGNORED} if isinstance(number, signal.Signals)}
    assert {signal.SIGRTMIN, signal.SIGRTMAX} <= set({*PASSED_ON, *IGNORED})


def test_a_signal_that_ends_the_job_ends_mpmon_as_it(tmp_path: Path) -> None:
    with started(tmp_path, "run", "--headless", "--", "sh", "-c", "echo up; exec sleep 1000") as running:
        assert heard(running) == "up"
        running.send_signal(signal.SIGUSR1)
        assert status_of(running) == 128 + signal.SIGUSR1


def test_what_is_ignored_from_the_start_stays_so(tmp_path: Path) -> None:
    """As nohup does with SIGHUP, and a shell without job control with SIGINT and SIGQUIT of a command in the background."""
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    shell = f"trap '' {' '.join(number.name.removeprefix('SIG') for number in ignored)}; exec \"$@\""
    with subprocess.Popen(
        ["sh", "-c", shell, "sh", *MPMON, *command("--headless")], env=variables(tmp_path), cwd=tmp_path,
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as running:  # fmt: skip
        assert heard(running).startswith("up ")
        for number in ignored:
            running.send_signal(number)
        assert before_the_ring(running) == []
        running.send_signal(signal.SIGTERM)
        assert status_of(running) == 9


def test_two_that_python_ignores_have_their_usual_effect(tmp_path: Path) -> None:
    """What they did before Python began cannot be known; whoever wants them ignored has a shell do it, as the manual says."""
    sees, trap = ["grep", "SigIgn", "/proc/self/status"], "trap '' HUP PIPE XFSZ; exec \"$@\""
    for given, ignored in (
        (sees, {signal.SIGHUP}),
        (["sh", "-c", trap, "sh", *sees], {*IGNORED_BY_PYTHON, signal.SIGHUP}),
    ):
        done = subprocess.run(
            ["sh", "-c", trap, "sh", *MPMON, "run", "--headless", "--", *given], env=variables(tmp_path), cwd=tmp_path,
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        assert int(done.stdout.split()[1], 16) == sum(1 << number - 1 for number in ignored)


@pytest.mark.parametrize("options", [("--headless",), ("--output", "log")], ids=["lines", "screen"])
def test_the_job_begins_with_the_signals_as_they_were(options: tuple[str, ...], tmp_path: Path) -> None:
    """SIGUSR1 is blocked from the start, SIGHUP is ignored."""
    shell = "trap '' HUP; exec \"$@\""
    blocks = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [10]); os.execv(sys.argv[1], sys.argv[1:])"
    )
    began = ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", blocks]
    with terminal([*began, *HEARS], tmp_path) as screen:
        screen.until(b"up ", b"\r\n")
        alone = screen.shown.split()[2:4]
    with terminal([*began, *MPMON, *command(*options)], tmp_path) as screen:
        screen.until(*([b"up ", b"\r\n"] if options == ("--headless",) else [b"hears.py", b"\x1b[?1049h"]))
        eventually(lambda: b"up " in screen.shown or b"\n" in (tmp_path / "log").read_bytes())
        said = screen.shown if options == ("--headless",) else (tmp_path / "log").read_bytes()
        assert said[said.index(b"up ") :].split()[2:4] == alone
        assert int(alone[0], 16) == 1 << signal.SIGUSR1 - 1


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what other processes do."""
    assert becomes(holds)


# The terminal's keys


def test_a_key_of_the_terminal_reaches_the_job_once(tmp_path: Path) -> None:
    with terminal([*MPMON, *command("--headless")], tmp_path) as screen:
        screen.until(b"up ", b"\r\n")
        ring(screen)
        for key, number in ((b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)):
            screen.press(key)
            screen.until(f"{int(number)}\r\n".encode())
            assert ring(screen) == [int(number)]
        resize(screen, 50, 100)
        screen.until(f"{int(signal.SIGWINCH)}\r\n".encode())
        assert ring(screen) == [signal.SIGWINCH]
        os.kill(screen.pid, signal.SIGINT)
        screen.shown = b""
        screen.until(b"2\r\n")
        os.kill(screen.pid, signal.SIGTERM)
        assert screen.end() == 9


def ring(screen: Terminal) -> list[int]:
    """The signals that were heard since the last key."""
    os.kill(screen.pid, RING)
    screen.until(f"{int(RING)}\r\n".encode())
    shown, screen.shown = screen.shown, b""
    numbers = [int(number) for number in re.findall(rb"\d+", shown)]
    assert numbers.pop() == RING
    return numbers


def resize(screen: Terminal, height: int, width: int) -> None:
    screen.shown = b""
    fcntl.ioctl(screen.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


STOPS = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("up", os.getpid(), flush=True)
signal.sigwait([signal.SIGTERM])
print("bye")
raise SystemExit(7)
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("option", ["--headless", "--output=log"])
def test_ctrl_z_and_fg(option: str, tmp_path: Path) -> None:
    """Both stop, since the kernel signals both, and both go on; also after the screen was left."""
    (tmp_path / "job.py").write_text(STOPS, encoding="utf-8")
    with terminal([shutil.which("bash") or "", "--norc", "--noprofile", "-i"], tmp_path) as screen:
        screen.press(f"{' '.join(MPMON)} run {option} -- {sys.executable} job.py\n".encode())
        if option == "--headless":
            screen.until(b"up ")
        else:
            screen.until(b"\x1b[?1049h", b"processes")
            screen.press(b"q")
            screen.until(b"the job continues")
        (mpmon,) = psutil.Process(screen.pid).children()
        (job,) = [child for child in mpmon.children() if child.cmdline()[-1] == "job.py"]
        screen.press(b"\x1a")
        screen.until(b"Stopped")
        eventually(lambda: {mpmon.status(), job.status()} == {psutil.STATUS_STOPPED})
        screen.press(b"fg\n")
        screen.until(b"job.py\r\n")
        mpmon.send_signal(signal.SIGTERM)
        screen.until(b"bye")
        screen.press(b"echo ended with $?\n")
        screen.until(b"ended with 7")


def test_a_wish_to_stop_stops_both(tmp_path: Path) -> None:
    """Without a terminal, in a group that is not orphaned: a shell with job control has to see it."""
    with subprocess.Popen(
        [*MPMON, *command("--headless")], env=variables(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        preexec_fn=os.setpgrp,  # noqa: PLW1509  process_group needs Python 3.11
    ) as running:  # fmt: skip
        assert heard(running).startswith("up ")
        running.send_signal(signal.SIGTSTP)
        assert heard(running) == str(int(signal.SIGTSTP))
        _, status = os.waitpid(running.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGTSTP
        running.send_signal(signal.SIGCONT)
        assert heard(running) == str(int(signal.SIGCONT))
        running.send_signal(signal.SIGTERM)
        assert status_of(running) == 9


# While the screen is shown


def written(log: Path, last: int) -> list[int]:
    """The signals the job has written down, as soon as this is the last of them."""
    eventually(lambda: log.read_text(encoding="utf-8").endswith(f"\n{last}\n"))
    return [int(line) for line in log.read_text(encoding="utf-8").splitlines()[1:]]


def test_signals_while_the_screen_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with terminal([*MPMON, *command("--output", "log")], tmp_path) as screen:
        screen.until(b"hears.py", b"\x1b[?1049h", b"processes")
        for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGWINCH, signal.SIGCONT, signal.SIGRTMIN + 1):
            os.kill(screen.pid, number)
            assert written(log, number)
        resize(screen, 30, 90)
        screen.until(b"processes")
        assert written(log, signal.SIGWINCH)
        os.kill(screen.pid, RING)
        assert written(log, RING)[-3:] == [signal.SIGRTMIN + 1, signal.SIGWINCH, RING]
        os.kill(screen.pid, signal.SIGTERM)
        assert screen.end() == 9
        assert b"\x1b[?1049l" in screen.shown


def test_a_command_of_ours_gets_back_what_was_blocked(tmp_path: Path) -> None:
    """The one of --on-hang."""
    code = (
        "import subprocess, sys; from mpmon.launch import Launched\n"
        "job = Launched(['true'], {}, None)\n"
        "grep = ['/bin/grep', '-E', 'SigBlk|SigIgn', '/proc/self/status']\n"
        "subprocess.run(job.with_signals_of_before(grep)); subprocess.run(grep)\n"
    )
    done = subprocess.run(
        # The tests themselves may have been started by nohup.
        ["env", "--default-signal", sys.executable, "-c", code],
        env=variables(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    blocked, ignored, mpmons, _ = (int(line.split()[1], 16) for line in done.stdout.splitlines())
    assert blocked == ignored == 0
    assert mpmons != 0
