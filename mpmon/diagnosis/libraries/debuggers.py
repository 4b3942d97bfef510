"""Debuggers and prompts: pdb, cmd and code of the standard library."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

DEBUGGERS = ("/bdb.py", "/pdb.py", "pydevd.py")
"""Files of debuggers: whoever has a call of one waits in it for commands, not for the input of the program."""

LIBRARY = Library(
    waits=(
        waits(Wait.DEBUGGER, "/pdb.py", "interaction set_trace _cmdloop cmdloop", "pdb"),
        waits(Wait.DEBUGGER, "pydevd.py", "block_until_configuration_done do_wait_suspend", "a debugger"),
        waits(Wait.SERVICE, "_pydevd_bundle/pydevd_daemon_thread.py", "run"),
        waits(Wait.DEBUGGER, "/cmd.py", "cmdloop", "a prompt"),
        waits(Wait.DEBUGGER, "/code.py", "interact raw_input", "an interactive prompt"),
    ),
    understood=("debugpy",),
)
