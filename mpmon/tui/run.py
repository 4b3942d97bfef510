"""Runs the app on the terminal until the user quits."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mpmon import heap
from mpmon.errors import LeavesAtOnce
from mpmon.tui.app import ENDING_SIGNALS, MonitorApp
from mpmon.tui.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator

    from mpmon.source import Watch


def run(watch: Watch, options: Options | None = None) -> int:
    """Shows a watch until the user quits.

    Args:
        watch: Where observations come from; it is told to stop at the end.
        options: How the screen looks and what it may call.

    Returns:
        The exit status: 0 after the user quit, 128 and the number of the signal after one of `ENDING_SIGNALS`.

    Raises:
        Exception: a defect ended the screen; the terminal is as it was.
        LeavesAtOnce: with the exit status, if the terminal takes nothing.
    """
    heap.give_back()
    app = MonitorApp(watch, options)
    with _signal_handlers_restored(), _drawn_on_the_terminal():
        try:
            status = app.run()
        finally:
            app.stop_feed()
    if app.failure is not None:
        raise app.failure
    status = app.return_code or status or 0
    if app.is_stuck:
        raise LeavesAtOnce(status)
    return status


@contextmanager
def _signal_handlers_restored() -> Generator[None, None, None]:
    """The app replaces the handlers of the signals that end it, and Textual those that stop it and those that follow."""
    replaced = (*ENDING_SIGNALS, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
    before = {number: signal.getsignal(number) for number in replaced}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _drawn_on_the_terminal() -> Generator[None, None, None]:
    """Textual draws on standard error; where that goes to a file, standard output is the screen."""
    before = sys.__stderr__
    if before is None or not before.isatty():
        sys.__stderr__ = sys.__stdout__  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.__stderr__ = before  # pyright: ignore[reportAttributeAccessIssue]
