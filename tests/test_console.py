"""Output that is closed, full or of another alphabet, and a machine that refuses: a sentence each, and never a defect."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpmon import console
from mpmon.errors import MpmonError, in_words, refusal
from mpmon.printable import ASCII, in_ascii
from tests.patience import status_of
from tests.sleepers import sleeper
from tests.test_cli import ENVIRONMENT, HUNG, Answer, mpmon, one_sentence

LATIN, NOTHING = {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
"""Environments in which standard output knows Latin letters, and ASCII only."""

TELLS = (
    ("--version",), ("--help",), ("explain",), ("config",), ("completion", "bash"), ("demo", "--list"),
    ("--replay", HUNG, "--once"), ("--replay", HUNG, "--json"), ("--replay", HUNG, "--plain"),
)  # fmt: skip
"""Calls that print something."""


def redirected(how: str, *arguments: str, **variables: str) -> Answer:
    """A call by a shell that has redirected, or closed, some of the streams."""
    command = ["sh", "-c", f'exec "$@" {how}', "sh", sys.executable, "-m", "mpmon", *arguments]
    environment = {**ENVIRONMENT, **variables}
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)


@pytest.mark.parametrize("arguments", TELLS, ids=" ".join)
def test_a_full_disk(arguments: tuple[str, ...]) -> None:
    assert "no space left on device" in one_sentence(redirected(">/dev/full", *arguments), 1)


@pytest.mark.parametrize("arguments", TELLS[:7], ids=" ".join)
def test_closed_output(arguments: tuple[str, ...]) -> None:
    assert "it is closed" in one_sentence(redirected(">&-", *arguments), 1)


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_without_standard_error_the_rest_is_as_usual(how: str) -> None:
    usual = mpmon("--replay", HUNG)
    answer = redirected(how, "--replay", HUNG)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, usual.stdout, "")
    assert redirected(how, "--wrong").returncode == 2
    assert redirected(how, "--replay", "/nowhere").returncode == 2


def test_closed_input() -> None:
    assert redirected("<&-", "--replay", HUNG, "--once").returncode == 3
    with sleeper() as process:
        assert redirected("<&-", str(process.pid), "--once", "--for", "1").returncode in (0, 4)
    answer = redirected("<&-")
    single = answer.stderr.startswith("watching the one job here")
    assert single or answer.returncode in (2, 4), "there is nobody to ask which job"


COUNTS_CLOSED = """
import os
closed = 0
for number in range(3):
    try:
        os.fstat(number)
    except OSError:
        closed += 1
raise SystemExit(10 + closed)
"""


def test_a_job_finds_closed_what_was_closed(tmp_path: Path) -> None:
    words = ("run", "--", sys.executable, "-c", COUNTS_CLOSED)
    assert redirected("<&- >&- 2>&-", *words, MPMON_RUN_DIR=str(tmp_path)).returncode == 13
    assert redirected("2>&-", *words, MPMON_RUN_DIR=str(tmp_path)).returncode == 11


def test_what_was_opened_does_not_get_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """The complaint about the closed output would be in it."""
    file = tmp_path / "facts.jsonl"
    with sleeper() as process:
        redirected("<&- >&- 2>&-", str(process.pid), "--once", "--for", "1", "--record", str(file))
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_output_that_must_not_block_is_waited_for() -> None:
    """More than fits into the pipe, which nobody reads until mpmon has filled it."""
    end, into = os.pipe()
    os.set_blocking(into, False)
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    command = [sys.executable, "-m", "mpmon", "--replay", HUNG, "--json"]
    with subprocess.Popen(command, stdout=into, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as running:
        while select.select([], [into], [], 0)[1] and running.poll() is None:
            continue
        os.close(into)
        with open(end, encoding="utf-8") as output:
            documents = [json.loads(line) for line in output]
        assert (running.wait(), running.stderr and running.stderr.read()) == (0, "")
    assert len(documents) >= 5


def test_ctrl_c_ends_it_though_nobody_reads_what_it_writes() -> None:
    end, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    command = [sys.executable, "-m", "mpmon", "--replay", HUNG, "--json"]
    with subprocess.Popen(command, stdout=into, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as running:
        while select.select([], [into], [], 0)[1] and running.poll() is None:
            continue
        running.send_signal(signal.SIGINT)
        assert (status_of(running), running.stderr and running.stderr.read()) == (128 + signal.SIGINT, "")
        os.close(into)
        os.close(end)


# What the machine refuses


def test_no_more_open_files() -> None:
    with sleeper() as process:
        command = f"ulimit -n 5; exec {sys.executable} -m mpmon {process.pid} --once"
        answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert "mpmon may not open any more files. Raise the limit: ulimit -n 1024." in one_sentence(answer, 1)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENFILE, "File table overflow"), "lsof"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "ulimit -v"),
        (MemoryError(), "there is not enough memory"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (RuntimeError("can't start new thread"), "may not start any more processes or threads"),
    ],
    ids=repr,
)
def test_a_refusal_is_no_defect(problem: Exception, words: str) -> None:
    assert words in in_words(problem)
    assert "defect" not in in_words(problem)


@pytest.mark.parametrize(
    "problem", [ValueError("oops"), FileNotFoundError(errno.ENOENT, "gone"), RuntimeError("oops")], ids=repr
)
def test_all_else_is_one(problem: Exception) -> None:
    assert refusal(problem) is None
    assert in_words(problem).startswith(f"this is a defect of mpmon ({type(problem).__name__}: ")


def test_sentences() -> None:
    assert in_words(MpmonError("it is so", "do this")) == "it is so. Do this."
    assert in_words(MpmonError("is it so?")) == "is it so?"


# Alphabets


def test_what_mpmon_draws_with_has_a_glyph_in_ascii() -> None:
    drawn = "".join(ASCII)
    assert in_ascii(drawn).isascii()
    assert len(in_ascii(drawn)) == len(drawn)
    assert in_ascii("größe 漢 →") == r"gr\xf6\xdfe \u6f22 >"


@pytest.mark.parametrize(
    ("variables", "encoding", "name"), [(LATIN, "latin-1", "größe"), (NOTHING, "ascii", r"gr\xf6\xdfe")]
)
def test_a_report_in_another_alphabet(variables: dict[str, str], encoding: str, name: str) -> None:
    program = [sys.executable, "-c", "print('ready', flush=True); input()", "größe", "漢字"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout
        job.stdout.readline()
        options = {"env": {**ENVIRONMENT, **variables}, "text": False}
        report, document = (mpmon(str(job.pid), "--once", "--for", "1", *more, **options) for more in ((), ("--json",)))
    said = report.stdout.decode(encoding)  # type: ignore[attr-defined]
    assert f"{name} \\u6f22\\u5b57" in said
    assert report.stderr == b""
    assert json.loads(document.stdout.decode())["root"]["pid"] == job.pid, "JSON is UTF-8"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "arguments",
    [("--replay", HUNG), ("--replay", HUNG, "--plain"), ("explain", "fork-lock"), ("doctor",)],
    ids=" ".join,
)
def test_all_is_told_in_ascii(arguments: tuple[str, ...]) -> None:
    usual = mpmon(*arguments)
    answer = mpmon(*arguments, env={**ENVIRONMENT, **NOTHING})
    assert answer.returncode == usual.returncode
    assert (answer.stdout + answer.stderr).isascii()
    assert len(answer.stdout.splitlines()) == len(usual.stdout.splitlines())
    if arguments[0] == "--replay":
        assert answer.stdout == in_ascii(usual.stdout)


def test_a_failure_is_told_in_ascii() -> None:
    told = one_sentence(mpmon("--replay", "größe", "--once", env={**ENVIRONMENT, **NOTHING}), 2)
    assert told.startswith("mpmon: there is no file gr\\")
    assert told.isascii()


def test_whether_the_terminal_knows_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, known in (("utf-8", True), ("latin-1", False), ("ascii", False), ("cp437", False)):
        with open(os.devnull, "w", encoding=encoding) as terminal:
            monkeypatch.setattr(sys, "stdout", terminal)
            assert console.can_draw() is known
