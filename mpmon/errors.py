"""Failures that end the program: one sentence, the remedy, the exit status. `mpmon.__main__` alone prints them."""

from __future__ import annotations


class MpmonError(Exception):
    """A failure to tell the user about.

    The message is one sentence about what went wrong; `remedy` says what to do.
    """

    exit_status = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class UsageError(MpmonError):
    """The command line does not make sense."""

    exit_status = 2


class CannotTell(MpmonError):
    """Nothing can be said about this process: it is gone, or not ours to read."""

    exit_status = 4
