"""Starting a job with the queue shim on, and standing between it and whoever signals mpmon meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from mpmon.errors import MpmonError
from mpmon.shim.boot import DUMPS
from mpmon.shim.places import VARIABLE, run_folder

STARTUP = Path(__file__).parent / "shim" / "startup"
"""The folder whose `sitecustomize` turns the shim on."""

FOR_BOTH = (signal.SIGINT, signal.SIGQUIT)
"""Keys of the terminal send these to its whole foreground group, so the job gets them without mpmon, which stays."""

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
"""Sent to mpmon alone, and meant for what it runs."""


class CannotStart(MpmonError):
    """The command does not begin; with the status a shell gives for it."""

    def __init__(self, message: str, remedy: str, status: int) -> None:
        super().__init__(message, remedy)
        self.exit_status = status


class Launched:
    """A job of the user's that mpmon has started. mpmon may end before it, it goes on."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> None:
        """With `output`, all it writes goes there, and it reads nothing.

        Raises:
            CannotStart: there is no such program.
        """
        self._signals_of_before = {number: _take(number, self._signalled) for number in (*FOR_BOTH, *PASSED_ON)}
        try:
            self._process = subprocess.Popen(
                list(command), env=dict(environment), stdin=subprocess.DEVNULL if output else None,
                stdout=output, stderr=subprocess.STDOUT if output else None,
            )  # fmt: skip
        except OSError as problem:
            self.release_signals()
            raise _refusal(command[0], problem) from problem

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self._process.pid

    def wait(self, seconds: float | None = None) -> int | None:
        """Its exit status when it has ended, as a shell tells it: 128 and the number of a signal; `None` after the time."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return 128 - status if status < 0 else status

    def signal(self, number: int) -> None:
        """Send one to its first process, if that is still there."""
        self._process.send_signal(number)

    def release_signals(self) -> None:
        """From now on they do to mpmon what they did before."""
        for number, action in self._signals_of_before.items():
            if action is not None:
                signal.signal(number, action)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number in PASSED_ON:
            self.signal(number)


def environment(given: Mapping[str, str], *, dump_stacks: bool) -> dict[str, str]:
    """The variables with which every Python of the job turns the shim on.

    Raises:
        OSError: there is no place for its files.
    """
    path = [str(STARTUP), *filter(None, [given.get("PYTHONPATH", "").removeprefix(f"{STARTUP}{os.pathsep}")])]
    made = {**given, VARIABLE: os.path.abspath(run_folder()), "PYTHONPATH": os.pathsep.join(path)}
    return {**made, DUMPS: "1"} if dump_stacks else made


def _take(number: signal.Signals, handler: signal._HANDLER) -> signal._HANDLER:  # pyright: ignore[reportPrivateUsage]
    """Handle a signal unless it is ignored, which the job inherits (nohup, a job in the background)."""
    if signal.getsignal(number) is signal.SIG_IGN:
        return None
    return signal.signal(number, handler)


def _refusal(program: str, problem: OSError) -> CannotStart:
    words = (problem.strerror or "unknown reason").lower()
    if isinstance(problem, FileNotFoundError):
        return CannotStart(f"{program} cannot be started: {words}", "Is it on the PATH?", 127)
    return CannotStart(f"{program} cannot be started: {words}", "Check the file and its rights.", 126)
