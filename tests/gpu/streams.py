"""mpmon that watches on and on, `mpmon PID --json`: what it says takes a while to be sure of."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from mpmon import start
from mpmon.doctor.gpu.case import Wrong
from mpmon.doctor.gpu.programs import __name__ as programs
from mpmon.doctor.gpu.talking import Program, Silent
from mpmon.doctor.gpu.watching import Report
from tests.patience import patience

SAYS_S = 90.0
CHUNK = 1 << 20
HOLDS = f"{programs}.holds"
RANKS = "tests.gpu.programs.ranks"


@contextlib.contextmanager
def job(module: str, *arguments: str, **environment: str) -> Iterator[tuple[Program, dict[str, Any]]]:
    """A program and the first thing it says.

    Raises:
        Wrong: it cannot do what it is there for.
    """
    try:
        with Program(module, *arguments, environment=environment) as program:
            yield program, program.hear()
    except Silent as problem:
        raise Wrong("a job that comes where it is to stand", "it failed", str(problem)) from problem


def until(pid: int, fits: Callable[[Report], object], expected: str, *more: str, seconds: float = SAYS_S) -> Report:
    """The first report of which this is so. Raises: Wrong."""
    command = start.command("mpmon.__main__", str(pid), "--json", "--interval", "0.5", *more)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
        start_new_session=True,
    ) as mpmon:  # fmt: skip
        try:
            last = None
            for report in _reports(mpmon, seconds):
                last = report
                if fits(report):
                    return report
            raise Wrong(expected, told(last) if last else "mpmon says nothing")
        finally:
            mpmon.kill()


def told(report: Report) -> str:
    """Verdict, causes, remarks."""
    causes = ", ".join(row["cause"] for row in report["findings"]) or "no cause"
    remarks = ", ".join(sorted({row["topic"] for row in report["remarks"]})) or "none"
    return f"{report['verdict']}, {causes}; remarks: {remarks}"


def _reports(mpmon: subprocess.Popen[bytes], seconds: float) -> Iterator[Report]:
    heard, stdout = b"", mpmon.stdout
    assert stdout
    for pause in patience(seconds):
        if not select.select([stdout], [], [], pause)[0]:
            continue
        chunk = os.read(stdout.fileno(), CHUNK)
        if not chunk:
            return
        *lines, heard = (heard + chunk).split(b"\n")
        yield from map(json.loads, lines)
