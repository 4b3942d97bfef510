"""Part soak: whether a live screen grows, however long it watches a job whose processes come and go.

mpmon watches the job of `tests.benchmarks.churn` on a terminal of 120x40.  Every half minute a row is printed: resident
memory of mpmon itself, its open descriptors, its threads and children, and the CPU it used since the row before.
Memory may grow until the history of the screen is full (`mpmon.snapshot_buffer`), and no further; nothing else may grow.
It is not among the parts that run by default, because it takes `--minutes`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from tests.benchmarks import tools
from tests.benchmarks.churn import Churn
from tests.benchmarks.table import line
from tests.benchmarks.terminal import Screen, last_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.rig import Rig

SIZE = (40, 120)
EVERY_S = 30.0
FIRST_S = 3.0
"""Before the first row: mpmon has drawn its first pictures by then."""
COLUMNS = ("s", "RSS MiB", "descriptors", "threads", "children", "CPU ms/s")


def measure(rig: Rig) -> Iterator[str]:
    """Tell a row of the table at a time, as they come."""
    yield f"## A live screen for {rig.minutes:g} minutes, in front of a job whose processes come and go\n"
    yield line(COLUMNS)
    yield line(["---"] * len(COLUMNS))
    with Churn() as job, Screen(tools.mpmon_live().command(job.root), rig.setting.environment(), SIZE) as screen:
        began, waits = time.monotonic(), FIRST_S
        while time.monotonic() - began < rig.minutes * 60:
            cost = screen.cost(waits)
            if screen.ended:
                yield f"\nmpmon ended: {last_words(screen.output)}"
                return
            screen.output = b""
            yield line(_row(screen.pid, time.monotonic() - began, cost.cpu_s / cost.seconds))
            waits = EVERY_S


def _row(pid: int, at_s: float, cpu: float) -> list[str]:
    process = psutil.Process(pid)
    with process.oneshot():
        return [
            f"{at_s:.0f}",
            f"{process.memory_info().rss / 2**20:.1f}",
            str(process.num_fds()),
            str(process.num_threads()),
            str(len(process.children())),
            f"{cpu * 1000:.1f}",
        ]
