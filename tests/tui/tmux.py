"""A terminal that a person could sit at: tmux on a socket of its own, with nobody's settings."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tests.patience import GLANCE_S, becomes, patience, ran

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]

NUMBERS = count()
"""For the names of sockets: a server that ends keeps its own for a while."""


class Terminal:
    """One program in one pane; the server ends with the `with` block."""

    def __init__(self, *arguments: str, size: tuple[int, int], job_control: bool = False, **environment: str) -> None:
        """Runs `python -m mpmon` with these arguments; with job control a line resumes mpmon after it was suspended."""
        self._socket = f"mpmon-test-{os.getpid()}-{next(NUMBERS)}"
        width, height = map(str, size)
        told = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **environment}
        settings = [part for name, value in told.items() for part in ("-e", f"{name}={value}")]
        command = shlex.join([sys.executable, "-m", "mpmon", *arguments])
        if job_control:
            command = f"set -m; {command}; echo suspended; read -r line; fg"
        program = f"{command}; echo exit status of mpmon: $?; read -r line"
        self._tmux(
            "new-session", "-d", "-x", width, "-y", height, *settings, program,
            ";", "set", "-g", "status", "off", ";", "resize-window", "-x", width, "-y", height,
        )  # fmt: skip
        self._server = int(self._tmux("display-message", "-p", "#{pid}"))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *words]
        answer = ran(command)
        assert answer.returncode == 0, answer
        return answer.stdout

    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p")

    def with_codes(self) -> str:
        """The same with the escape codes of its looks."""
        return self._tmux("capture-pane", "-p", "-e")

    def press(self, *keys: str) -> None:
        """Keys by tmux's names."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        """The window is drawn larger or smaller."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, holds: Callable[[str], bool]) -> str:
        """Waits for the screen to be so."""
        text = ""
        for pause in patience(pause_s=GLANCE_S, also=self._server):
            if holds(text := self.text()):
                return text
            time.sleep(pause)
        raise AssertionError(text)

    def shows(self, *words: str) -> str:
        """Waits for all of these words."""
        return self.until(lambda text: all(word in text for word in words))

    def exit_status(self) -> int:
        """Waits for the program's end; the shell says how it ended."""
        text = self.shows("exit status of mpmon: ")
        return int(text.rpartition("exit status of mpmon: ")[2].split()[0])

    def program(self) -> int:
        """The pid of mpmon, which the shell may not have started yet."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children")
        assert becomes(children.read_text)
        (found,) = children.read_text().split()
        return int(found)

    def hang_up(self) -> None:
        """The terminal is gone, as after a lost connection."""
        self._tmux("kill-server")
