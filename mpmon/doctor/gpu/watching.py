"""mpmon as users run it, in a process of its own: `mpmon PID --once --json`, until its report fits.

A report reads everything anew; the live screen spends so little on shared memory that it may be a minute late.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from mpmon import start
from mpmon.doctor.gpu.case import Wrong

SAYS_S = 40.0
"""Time limit for mpmon to report what is so."""
REPORT_S = 60.0
"""Time limit for one report."""
HUNG = 3
STATUSES = frozenset({0, HUNG, 4})
"""Exit statuses of a report: no hang, hung, cannot tell."""

Report = dict[str, Any]


def report_of(pid: int, *more: str, look_s: float = 1.0) -> Report:
    """The report of mpmon on one process and all below it, after observing for at most `look_s` seconds.

    Raises:
        Wrong: it fails.
    """
    command = start.command("mpmon.__main__", str(pid), "--once", "--json", "--for", f"{look_s:g}", *more)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=REPORT_S + look_s, check=False
        )
    except subprocess.TimeoutExpired as problem:
        raise Wrong("a report of mpmon", f"none within {REPORT_S + look_s:g} s") from problem
    if done.returncode not in STATUSES:
        raise Wrong("a report of mpmon", f"status {done.returncode}", done.stderr.decode(errors="replace")[-400:])
    return json.loads(done.stdout)


def until(
    pid: int, fits: Callable[[Report], object], expected: str, seen: Callable[[Report], str], *,
    seconds: float = SAYS_S,
) -> Report:  # fmt: skip
    """The first report on a process of which this is so.

    Args:
        pid: The root of the job.
        fits: What has to be so.
        expected: The same in words.
        seen: What is so instead, in words, of the last report.
        seconds: After which no further report is asked for.

    Raises:
        Wrong: it does not become so in time.
    """
    deadline = time.monotonic() + seconds
    while not fits(report := report_of(pid)):
        if time.monotonic() > deadline:
            raise Wrong(expected, seen(report))
    return report
