"""Real children that sleep until a signal or the end of the test, each ready when it says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from mpmon.model import Process
from mpmon.probes.files import Proc
from mpmon.probes.processes import ProcessTable

SLEEP = "import sys; print('ready', flush=True); sys.stdin.read()"
"""Sleeps until its standard input is closed, and ends at once when a signal ends it."""

DEAF = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); sys.stdin.read()"
"""The same, but SIGTERM does nothing to it."""


@contextmanager
def sleeper(program: str = SLEEP, *, arguments: Sequence[str] = (), **more: object) -> Generator[subprocess.Popen[str]]:
    """A child that has said it is ready; gone afterwards."""
    command = [sys.executable, "-c", program, *arguments]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def row(pid: int) -> Process:
    """The row of a live process, as mpmon reads it."""
    proc = Proc()
    table = ProcessTable(proc, pid)
    try:
        return next(process for process in table.look(0.0)[0] if process.pid == pid)
    finally:
        table.close()
        proc.close()
