"""A job may call itself, its threads and its files anything; what mpmon says of it stays lines of text."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mpmon.errors import LONGEST, tell
from mpmon.printable import in_json, in_place, written_out
from tests.test_cli import ENVIRONMENT, mpmon, one_sentence
from tests.tui.tmux import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

NAME = "\x1b]0;mine\x07\x9b2J\nnext\u202eright\u200f中文e\u0301"
"""A title for the terminal, a command to clear it, two lines, marks that turn the writing, wide and combining glyphs."""

PROGRAM = f"""
import sys, threading
go = threading.Event()
def hold():
    print("ready", flush=True)
    go.wait()
thread = threading.Thread(target=hold, name={NAME!r})
thread.start()
thread.join()
"""

TURNING = "\u202e\u200f"


@pytest.mark.parametrize(
    ("text", "longer", "as_long"),
    [
        ("plain", "plain", "plain"),
        ("中文 é", "中文 é", "中文 é"),
        ("\x1b[31mred", r"\x1b[31mred", "·[31mred"),
        ("one\ntwo\ttab", r"one\ntwo\ttab", "one·two·tab"),
        ("a\u202eb", r"a\u202eb", "a·b"),
        ("\x9b2J", r"\x9b2J", "·2J"),
        ("\udc80", r"\udc80", "·"),
    ],
)
def test_what_does_not_print_is_written_out(text: str, longer: str, as_long: str) -> None:
    assert (written_out(text), in_place(text)) == (longer, as_long)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("中文 é e\u0301", "中文 é e\u0301"),
        (r"\u001b[31m", r"\u001b[31m"),
        ("\x9b2J\x7f", r"\u009b2J\u007f"),
        ("a\u202eb\u200b\u2028é", r"a\u202eb\u200b\u2028é"),
        ("\U000e0001", r"\udb40\udc01"),
    ],
)
def test_json_has_what_does_not_print_escaped(text: str, escaped: str) -> None:
    assert in_json(f'"{text}"'.encode()).decode() == f'"{escaped}"'
    assert json.loads(f'"{escaped}"') == json.loads(f'"{text}"')


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[int]:
    """The pid of a program whose file, arguments and thread are called so."""
    script = tmp_path / f"job{NAME.replace('/', '')}.py"
    script.write_text(PROGRAM, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script), NAME], stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        yield job.pid
        job.kill()


@pytest.mark.parametrize("options", [("--once",), ("--once", "--ascii")])
def test_the_report_is_lines_of_text(hostile: int, options: tuple[str, ...]) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "mpmon", str(hostile), "--for", "8", *options],
        cwd=ROOT, env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, check=False,
    )  # fmt: skip
    text = said.stdout.decode()

    assert said.returncode == 3
    assert all(line.isprintable() for line in text.split("\n"))
    assert r"\x1b]0;mine\x07" in text
    assert r"\nnext\u202eright" in text
    assert text.isascii() == ("--ascii" in options)


def test_the_json_of_a_report_can_be_looked_at_in_a_terminal(hostile: int, tmp_path: Path) -> None:
    recording = tmp_path / "hang.jsonl"
    said = subprocess.run(
        [sys.executable, "-m", "mpmon", str(hostile), "--once", "--json", "--record", str(recording)],
        cwd=ROOT, env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, check=False,
    )  # fmt: skip
    assert said.returncode == 3
    for text in (said.stdout.decode(), recording.read_text(encoding="utf-8")):
        assert all(line.isprintable() for line in text.split("\n"))
        assert r"\u009b2J\nnext\u202eright\u200f中文" in text
    assert json.loads(said.stdout)["processes"][0]["cmdline"][-1] == NAME


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--replay", NAME], 2),
        (["--replay", ".", "--record", NAME], 2),
        (["1", "--once", "--record", f"{NAME}/file"], 2),
        (["1", "--once", "--flight-recorder", NAME], 2),
        (["1", f"--{NAME}"], 2),
        ([NAME], 2),
        (["run", "--", NAME], 127),
        (["gc", NAME], 2),
        (["explain", NAME], 2),
        (["demo", NAME], 2),
        (["serve", "--replay", NAME], 2),
    ],
    ids=str,
)
def test_what_is_said_of_it_is_a_line_of_text(arguments: list[str], status: int, tmp_path: Path) -> None:
    """The user's own shell may have completed the name of somebody else's file."""
    said = mpmon(*arguments, cwd=tmp_path, encoding="utf-8", env={**ENVIRONMENT, "LC_ALL": "C.UTF-8"})
    assert (said.returncode, said.stdout) == (status, "")
    assert all(line.isprintable() for line in said.stderr.splitlines())
    assert said.stderr.splitlines()[-1].startswith("mpmon")


def test_a_folder_of_settings_that_is_called_so(tmp_path: Path) -> None:
    file = tmp_path / NAME / "mpmon" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("interval = 0")
    environment = {**ENVIRONMENT, "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(tmp_path / NAME)}
    told = one_sentence(mpmon("1", encoding="utf-8", env=environment), 2)
    assert told.isprintable()
    assert written_out(NAME) in told
    file.write_text("interval = 2")
    printed = mpmon("config", encoding="utf-8", env=environment).stdout
    assert printed.startswith(f"# {written_out(str(file))}\n")
    assert printed.replace("\n", "").isprintable()


def test_what_mpmon_says_is_one_line_of_so_many_letters(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"first {NAME * 1000} last.")
    said = capsys.readouterr().err
    assert said.startswith(r"mpmon: first \x1b]0;mine\x07")
    assert said.endswith("中文e\u0301 last.\n")
    assert said.removesuffix("\n").isprintable()
    assert len(said) <= len("mpmon: \n") + LONGEST


def test_the_screen_shows_it_and_does_not_obey(hostile: int) -> None:
    with Terminal(str(hostile), size=(120, 40)) as terminal:
        text = terminal.shows("HUNG", "·]0;mine··2J·next·right·中文")
        terminal.press("y")
        terminal.shows("set-clipboard")
        codes = terminal.with_codes()
        terminal.press("q")
        assert terminal.exit_status() == 0
    assert re.search(r"HUNG \d+ s$", text.splitlines()[0])
    assert not [glyph for glyph in codes if glyph in TURNING or glyph == "\x9b" or "\x1b]0" in codes]
