"""What mpmon runs, or runs in: py-spy, this Python, and torch in the same environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec

from mpmon.doctor.check import DEADLINE_S, Check
from mpmon.probes.stacks import find_py_spy, limit

OLDEST_PY_SPY = (0, 4, 3)
"""The first one that names the threads and classes of Python 3.14."""

END_S = 0.2
"""How long a killed program may take to end."""


def checks_of_tools() -> Iterator[Check]:
    """All checks of this module."""
    yield check_py_spy(find_py_spy())
    yield Check("Python", ok=True, because=f"{sys.version.split()[0]} at {sys.executable}")
    yield check_torch()


def check_py_spy(executable: str | None) -> Check:
    """Whether py-spy is installed and new enough."""
    remedy = "pip install 'py-spy>=0.4.3' into mpmon's environment"
    if executable is None:
        return Check("py-spy", ok=False, because="found neither next to this Python nor on the PATH", do_this=remedy)
    status, said = answer_of([executable, "--version"])
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    if status != 0 or match is None:
        return Check("py-spy", ok=False, because=f"{executable} does not run: {first_line(said)}", do_this=remedy)
    version = tuple(int(part) for part in match.groups())
    because = f"{match.group()} at {executable}"
    if version < OLDEST_PY_SPY:
        return Check("py-spy", ok=False, because=f"{because}, too old", do_this=remedy)
    return Check("py-spy", ok=True, because=because)


def check_torch() -> Check:
    """Whether torch is installed with mpmon; it is not imported, and the job may have its own."""
    if find_spec("torch") is None:
        return Check("torch", ok=None, because="not installed with mpmon; only the demo would use it")
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return Check("torch", ok=True, because=f"{version} (not imported)")


def answer_of(command: Sequence[str]) -> tuple[int | None, str]:
    """Exit status and output of a command; `None` when it did not end in time or could not start."""
    try:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
    except OSError as error:
        return -1, error.strerror or "it cannot be started"
    limit(started.pid)
    try:
        said, _ = started.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        started.kill()
        # A program that reads memory behind a lock that is never released does not even end when killed.
        with suppress(subprocess.TimeoutExpired):
            started.communicate(timeout=END_S)
        return None, f"no answer within {DEADLINE_S:g} s"
    return started.returncode, said.decode(errors="replace")


def first_line(said: str) -> str:
    """The first line of a program's output."""
    lines = said.strip().splitlines()
    return lines[0].removeprefix("Error: ") if lines else "it said nothing"
