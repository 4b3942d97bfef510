"""`mpmon run` and `mpmon gc`, as a shell calls them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import becomes, patience, ran, rest_of
from tests.shim.running import HOME, PROGRAMS, environment, files

MPMON = [sys.executable, "-m", "mpmon"]
HANGS = [sys.executable, str(PROGRAMS / "hangs.py")]


def variables(folder: Path, **more: str) -> dict[str, str]:
    return environment(None, MPMON_RUN_DIR=str(folder), PYTHONPATH=str(HOME), **more)


def mpmon(folder: Path, *arguments: str, said: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return ran([*MPMON, *arguments], said=said, env=variables(folder), cwd=cwd or folder, start_new_session=True)


@contextlib.contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One that goes on, and is gone afterwards with all it started; who listens to it for too long finds its end."""
    with subprocess.Popen(
        [*MPMON, *arguments], env=variables(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as running:  # fmt: skip
        over = threading.Event()
        guard = threading.Thread(target=_guard, args=(running, over))
        guard.start()
        try:
            yield running
        finally:
            over.set()
            guard.join()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


GUARD_S = 300.0
"""All of a test together, which may wait for one thing after the other."""


def _guard(running: subprocess.Popen[str], over: threading.Event) -> None:
    """End what nobody has patience with any more."""
    for pause in patience(GUARD_S):
        if over.wait(pause):
            return
    os.killpg(running.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_it_ends_as_the_command_ends(command: str, status: int, tmp_path: Path) -> None:
    ended = mpmon(tmp_path, "run", "--", "sh", "-c", command)
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", "")


def test_what_the_command_reads_and_writes_is_not_touched(tmp_path: Path) -> None:
    ended = mpmon(tmp_path, "run", "--headless", "--", "sh", "-c", "cat; echo complaint >&2", said="a\0b\n")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "a\0b\n", "complaint\n")


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    ended = mpmon(tmp_path, "run", "--", "echo", "--headless", "--", "-x")
    assert ended.stdout == "--headless -- -x\n"
    assert (
        mpmon(tmp_path, "run", "echo", "--version").stdout == mpmon(tmp_path, "run", "--", "echo", "--version").stdout
    )


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ((), 2, "there is no command to run"),
        (("--",), 2, "there is no command to run"),
        (("--", "no-such-program"), 127, "no-such-program cannot be started: no such file or directory"),
        (("--", "/"), 126, "/ cannot be started: permission denied"),
    ],
)
def test_a_command_that_cannot_be_started(command: tuple[str, ...], status: int, words: str, tmp_path: Path) -> None:
    ended = mpmon(tmp_path, "run", *command)
    assert ended.returncode == status
    assert words in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_the_shim_is_on_in_the_command_and_all_it_starts(tmp_path: Path) -> None:
    program = f"{sys.executable} {PROGRAMS / 'items.py'} spawn"
    ended = mpmon(tmp_path, "run", "--", "sh", "-c", program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "380 0\n", "")
    assert len(files(tmp_path)) == 2


def test_without_a_place_for_its_files_the_command_runs_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = mpmon(tmp_path / "file" / "folder", "run", "--", "echo", "done", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert ended.stderr.startswith("mpmon: the shim is off: ")


def test_a_hang_is_told_and_its_hook_is_called(tmp_path: Path) -> None:
    report = tmp_path / "report"
    # It is called once more when the job ends, if mpmon still sees that.
    hook = f'[ "$MPMON_EVENT" = end ] && exit; cat > {report}.part && mv {report}.part {report}; echo called'
    with started(tmp_path, "run", "--headless", "--interval", "0.3", "--on-hang", hook, "--", *HANGS) as running:
        assert becomes(lambda: report.exists() or running.poll() is not None)
        assert running.poll() is None
        said, complained = rest_of(running, "end\n")
    assert running.returncode == 5
    assert said.splitlines()[0] == "out"
    words = complained.splitlines()
    ours = [line for line in words if line.startswith("mpmon: ")]
    assert "the job hangs" in ours[0]
    assert any("cause: worker-stuck" in line for line in ours)
    assert any("hangs.py:" in line for line in ours)
    assert sorted({line for line in words if not line.startswith("mpmon: ")}) == ["called", "err"]
    assert report.read_text(encoding="utf-8").startswith("HUNG")


def test_control_c_is_for_the_command(tmp_path: Path) -> None:
    waits = "print('u' + 'p', flush=True); signal.sigwait([2]); raise SystemExit(4)"
    job = [sys.executable, "-c", f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2]); {waits}"]
    with terminal([*MPMON, "run", "--headless", "--", *job], tmp_path) as screen:
        screen.until(b"up")
        screen.press(b"\x03")
        assert screen.end() == 4
        assert screen.shown.strip() == b"^C"


# On a terminal


class Terminal:
    """A pseudo-terminal with a program on it."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, variables(folder, TERM="xterm-256color"))
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.shown = b""
        self.status: int | None = None

    def until(self, *words: bytes) -> None:
        """Read until all these were shown since the last time."""
        for pause in patience():
            if all(word in self.shown for word in words):
                return
            if select.select([self.master], [], [], pause)[0]:
                self.shown += os.read(self.master, 65536)
        raise AssertionError(self.shown[-2000:])

    def press(self, keys: bytes) -> None:
        self.shown = b""
        os.write(self.master, keys)

    def end(self) -> int:
        with contextlib.suppress(OSError):
            while chunk := os.read(self.master, 65536):
                self.shown += chunk
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def close(self) -> None:
        os.close(self.master)
        if self.status is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in (*psutil.Process(self.pid).children(recursive=True), psutil.Process(self.pid)):
                    process.kill()
            os.waitpid(self.pid, 0)


@contextlib.contextmanager
def terminal(command: list[str], folder: Path) -> Iterator[Terminal]:
    opened = Terminal(command, folder)
    try:
        yield opened
    finally:
        opened.close()


def test_on_a_terminal_the_screen_is_shown_and_the_output_goes_to_a_file(tmp_path: Path) -> None:
    with terminal([*MPMON, "run", "--output", "log", "--", *HANGS], tmp_path) as screen:
        screen.until(b"goes to log", b"hangs.py", b"\x1b[?1049h")
        screen.press(b"q")
        screen.until(b"the job continues", b"log")
        (parent,) = [p for p in psutil.Process(screen.pid).children() if "hangs.py" in " ".join(p.cmdline())]
        screen.press(b"\x03")
        assert screen.end() != 0, "Ctrl-C ended the job"
        assert b"KeyboardInterrupt" in screen.shown, "what the job writes from now on is shown"
        assert not parent.is_running()
    written = (tmp_path / "log").read_text(encoding="utf-8")
    assert written.startswith("out\n")
    assert "err\n" in written


def test_the_screen_stays_when_the_job_has_ended_and_its_status_is_told(tmp_path: Path) -> None:
    code = "import time; print('all done'); time.sleep(1.5); raise SystemExit(6)"
    with terminal([*MPMON, "run", "--", sys.executable, "-c", code], tmp_path) as screen:
        screen.until(b"the job ended")
        screen.press(b"q")
        assert screen.end() == 6
        assert b"ended with status 6" in screen.shown
    (log,) = tmp_path.glob("mpmon-*.out")
    assert log.read_text(encoding="utf-8") == "all done\n"
    assert log.name.encode() in screen.shown


@pytest.mark.parametrize("wrong", [("--record", "log"), ("--flight-recorder", "/nowhere")], ids=" ".join)
@pytest.mark.parametrize("headless", [("--headless",), ()], ids=["lines", "screen"])
def test_no_job_is_started_with_options_that_are_wrong(
    wrong: tuple[str, ...], headless: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("precious", encoding="utf-8")
    with terminal([*MPMON, "run", *headless, *wrong, "--", "touch", "started"], tmp_path) as screen:
        assert screen.end() == 2
        assert b"log exists already" in screen.shown or b"'/nowhere' cannot be read" in screen.shown
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".mpmon")] == ["log"]


def test_a_job_that_cannot_be_started_leaves_no_recording(tmp_path: Path) -> None:
    assert mpmon(tmp_path, "run", "--record", "facts", "--", "no-such-program").returncode == 127
    assert not (tmp_path / "facts").exists()


def test_a_job_is_waited_for_when_the_screen_fails(tmp_path: Path) -> None:
    # Python imports the file by this name when it starts; the job's is another one.
    (tmp_path / "sitecustomize.py").write_text("from mpmon.tui.describe import headline\nheadline.verdict = None\n")
    code = "import sys; print('said', flush=True); sys.stdin.read(); raise SystemExit(7)"
    mpmon_with_a_defect = ["/usr/bin/env", f"PYTHONPATH={tmp_path}{os.pathsep}{HOME}", *MPMON]
    job = ["/usr/bin/env", "PYTHONPATH=", sys.executable, "-c", code]
    with terminal([*mpmon_with_a_defect, "run", "--output", "log", "--", *job], tmp_path) as screen:
        assert screen.end() == 7
        assert b"the job is not watched: this is a defect of mpmon (TypeError: " in screen.shown
    assert (tmp_path / "log").read_text(encoding="utf-8") == "said\n"


def test_an_output_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("precious", encoding="utf-8")
    with terminal([*MPMON, "run", "--output", "log", "--", "true"], tmp_path) as screen:
        assert screen.end() == 2
        assert b"log cannot be created: file exists" in screen.shown
    assert (tmp_path / "log").read_text(encoding="utf-8") == "precious"


# gc


def test_what_is_removed_is_named(tmp_path: Path) -> None:
    for _ in range(2):
        mpmon(tmp_path, "run", "--", sys.executable, str(PROGRAMS / "items.py"), "fork")
    assert len(files(tmp_path)) == 2, "the job before was cleaned up after"
    kept = mpmon(tmp_path, "gc")
    assert kept.returncode == 0
    # Other jobs of this user may leave files in the usual folder meanwhile.
    assert str(tmp_path) not in kept.stdout
    *all_gone, total = mpmon(tmp_path, "gc", "--all").stdout.splitlines()
    assert len([line for line in all_gone if str(tmp_path) in line]) == 2
    assert total.startswith(f"{len(all_gone)} files removed, ")
    assert files(tmp_path) == {}


def test_a_folder_that_others_may_write_to_is_not_cleaned_up(tmp_path: Path) -> None:
    (open_to_all := tmp_path / "open").mkdir()
    open_to_all.chmod(0o777)
    refused = mpmon(tmp_path, "gc", str(open_to_all))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{open_to_all} is not cleaned up: it may be written by others than " in refused.stderr
    runtime = tmp_path / "runtime"
    (runtime / "mpmon").mkdir(parents=True)
    (runtime / "mpmon").chmod(0o777)
    variables_of_it = {**variables(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    told = subprocess.run(
        [*MPMON, "gc"], env=variables_of_it, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert told.returncode == 0
    assert told.stderr.startswith(f"mpmon: {runtime / 'mpmon'} is not cleaned up: it may be written by others than ")
