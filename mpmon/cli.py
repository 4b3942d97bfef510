"""The command line: which command the arguments name. Nothing is imported that this command does not need."""

from __future__ import annotations

from importlib import import_module

from mpmon.commands import COMMANDS, HIDDEN


def run(arguments: list[str]) -> int:
    """Do what the arguments say; the exit status.

    Raises:
        MpmonError: one sentence for the user, with the remedy.
    """
    if arguments and arguments[0] in (*COMMANDS, *HIDDEN):
        return import_module(f"mpmon.commands.{arguments[0]}").run(arguments[1:])
    return import_module("mpmon.commands.watch").run(arguments)
