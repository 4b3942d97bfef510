"""From the command line to the picture in a real terminal: attach, keys, resize, quit, and what the terminal is left as."""

from __future__ import annotations

import os
import select
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.hangs.expected import HOME
from tests.patience import patience
from tests.sleepers import sleeper
from tests.tui.tmux import ROOT, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")

RECORDING = str(HOME / "dl-getitem-sleep" / "recording.jsonl.gz")

PAGES = {
    "h": "q F10",
    "w": "── why",
    "Enter": "── details",
    "s": "── stacks",
    "S": "── equal stacks",
    "i": "── queues and IPC",
    "l": "── events",
    "e": "── environment",
}
"""Keys of the main screen, and what the page they open is called."""


@pytest.fixture
def watching() -> Iterator[tuple[Terminal, int]]:
    """A live screen on a job of one process, and the pid of that; sizes of another time are in the environment."""
    with sleeper() as process, Terminal(str(process.pid), size=(80, 24), COLUMNS="100", LINES="30") as terminal:
        terminal.shows(f"pid {process.pid}", "q quit")
        yield terminal, process.pid


def test_attach_open_every_page_and_quit(watching: tuple[Terminal, int]) -> None:
    terminal, pid = watching
    for key, title in PAGES.items():
        terminal.press(key)
        terminal.shows(title, "Esc back")
        terminal.press("Escape")
        terminal.shows("── processes 1", "Enter open")
    terminal.press("k")
    terminal.shows("which signal", "Cancel", f"pid {pid}")
    terminal.press("Enter")
    terminal.shows("── processes 1", "Enter open")
    os.kill(pid, 0)

    terminal.press("q")
    assert terminal.exit_status() == 0
    os.kill(pid, 0)


@pytest.mark.parametrize("key", ["C-c", "F10", "q"])
def test_every_way_out_leaves_the_job_alone(watching: tuple[Terminal, int], key: str) -> None:
    terminal, pid = watching
    terminal.press(key)
    assert terminal.exit_status() == 0
    os.kill(pid, 0)


def test_the_picture_fits_whatever_the_window_becomes(watching: tuple[Terminal, int]) -> None:
    terminal, _ = watching
    for width, height in ((60, 15), (200, 60), (40, 10), (120, 40)):
        terminal.resize(width, height)
        text = terminal.until(lambda text, height=height: is_drawn(text, height))
        assert max(map(len, text.splitlines())) <= width
    terminal.press("q")
    assert terminal.exit_status() == 0


def is_drawn(text: str, height: int) -> bool:
    """The first and the last line are where they belong."""
    lines = text.split("\n")
    return len(lines) >= height and lines[0].startswith("-c import") and lines[height - 1].startswith("q quit")


def test_a_terminal_that_goes_takes_mpmon_with_it(watching: tuple[Terminal, int]) -> None:
    terminal, pid = watching
    program = os.pidfd_open(terminal.program())
    terminal.hang_up()
    ended = any(select.select([program], [], [], pause)[0] for pause in patience())
    os.close(program)
    assert ended
    os.kill(pid, 0)


def test_a_wish_to_go_on_changes_nothing_while_it_goes_on(watching: tuple[Terminal, int]) -> None:
    terminal, _ = watching
    for _ in range(3):
        os.kill(terminal.program(), signal.SIGCONT)
    terminal.press("h")
    terminal.shows("── keys")
    terminal.press("q")
    assert terminal.exit_status() == 0


def test_ctrl_z_suspends_mpmon_until_the_shell_resumes_it() -> None:
    with sleeper() as process, Terminal(str(process.pid), size=(80, 24), job_control=True) as terminal:
        terminal.shows("── processes 1", "q quit")
        terminal.press("C-z")
        assert "q quit" not in terminal.shows("suspended")
        terminal.press("Enter")
        terminal.until(lambda text: is_drawn(text, 24))
        process.kill()
        terminal.shows("ENDED")
        terminal.press("h")
        terminal.shows("── keys", "Ctrl-Z")
        terminal.press("q")
        assert terminal.exit_status() == 0


def test_ctrl_z_without_a_shell_to_resume_mpmon_only_says_so(watching: tuple[Terminal, int]) -> None:
    terminal, _ = watching
    terminal.press("C-z")
    terminal.shows("── processes 1", "not suspended: there is no shell here that could resume mpmon")
    terminal.press("q")
    assert terminal.exit_status() == 0


def test_a_recording_goes_to_its_hang_and_says_what_to_do() -> None:
    with Terminal("--replay", RECORDING, size=(80, 24)) as terminal:
        terminal.shows("[", "p pause  , back  . step  b start")
        terminal.press("b")
        text = terminal.shows("HUNG", "cause: worker-stuck")
        assert "to do: See why it sleeps for so long at " in text
        terminal.press("q")
        assert terminal.exit_status() == 0


def test_what_is_no_recording_is_told_and_no_screen_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello")
    with Terminal("--replay", str(tmp_path / "notes"), size=(200, 24)) as terminal:
        assert terminal.exit_status() == 2
        (said, *_) = terminal.text().splitlines()
    assert said == f"mpmon: {tmp_path / 'notes'} is not a recording of mpmon. Make one with: mpmon PID --record FILE."


@pytest.mark.parametrize(("option", "environment"), [("--no-color", {}), (None, {"NO_COLOR": "1"})])
def test_without_colours_no_colour_is_sent(option: str | None, environment: dict[str, str]) -> None:
    arguments = ["--replay", RECORDING, *filter(None, [option])]
    with Terminal(*arguments, size=(80, 24), **environment) as terminal:
        terminal.shows("[")
        terminal.press("b")
        terminal.shows("cause: worker-stuck")
        coloured = terminal.with_codes()
        assert not [code for code in ("\x1b[31m", "\x1b[91m", "\x1b[32m", "[38;", "[48;") if code in coloured]


def test_a_terminal_that_knows_ascii_only() -> None:
    with Terminal("--replay", RECORDING, size=(80, 24), PYTHONIOENCODING="ascii") as terminal:
        terminal.shows("[")
        terminal.press("b")
        assert terminal.shows("cause: worker-stuck", "- processes").isascii()


def test_a_defect_of_the_screen_is_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    # Python imports the file by this name when it starts.
    (tmp_path / "sitecustomize.py").write_text("from mpmon.tui.describe import headline\nheadline.verdict = None\n")
    with (
        sleeper() as process,
        Terminal(str(process.pid), size=(120, 40), PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}") as terminal,
    ):
        assert terminal.exit_status() == 1
        text = terminal.shows("mpmon: this is a defect of mpmon (TypeError: ", "MPMON_DEBUG=1")
    assert "Traceback" not in text
    assert "locals" not in text
