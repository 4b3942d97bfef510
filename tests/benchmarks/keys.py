"""Part keys: how long a person waits for an answer to a key, and for mpmon to be gone after `q`.

The screen of 200x60 shows a job on eight GPUs; in the second row the driver never comes back from a call on one of them.
A key is answered when the first byte after it arrives at the terminal; keys come 0.1 s apart, so that rounds fall between
them.
"""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING

from tests import nvml
from tests.benchmarks import tools
from tests.benchmarks.job import Job
from tests.benchmarks.table import Table, middle
from tests.benchmarks.terminal import Screen

if TYPE_CHECKING:
    from tests.benchmarks.rig import Rig

KEYS, BETWEEN_S, SETTLING_S = 50, 0.1, 10.0
TREE_OR_LIST = b"t"
"""It always changes what is shown; a cursor may be at the end."""


def measure(rig: Rig) -> list[Table]:
    """Measure one table per size of the job."""
    return [_table(rig, processes) for processes in rig.sizes]


def _table(rig: Rig, processes: int) -> Table:
    table = Table(
        f"Keys on a job of {processes} processes",
        f"{KEYS} keys that turn the tree into a list and back; milliseconds until the answer, and until mpmon is gone after q.",
        ("driver", "key, median ms", "key, p95 ms", "quit ms", "processes left"),
    )
    if rig.setting.nvml_problem is not None:
        table.skip("stand-in", rig.setting.nvml_problem)
        return table
    with Job(processes, hung=rig.hung) as job:
        for driver in ("answers", "hangs on GPU 3"):
            environment = rig.setting.environment(job.pids, processes)
            if driver != "answers":
                scenario = nvml.Scenario(gpus=tools.GPUS).hangs("nvmlDeviceGetPowerUsage", gpu=3)
                scenario.write(rig.setting.folder / "gpus")
            table.rows.append([driver, *_figures(job, environment)])
    return table


def _figures(job: Job, environment: dict[str, str]) -> list[str]:
    with Screen(tools.mpmon_live().command(job.root), environment) as screen:
        screen.run(SETTLING_S)
        waits = press(screen)
        gone_s, left = screen.quit(b"q")
    return [middle(waits), f"{p95(waits):.1f}", f"{gone_s * 1000:.0f}", str(left)]


def press(screen: Screen) -> list[float]:
    """Milliseconds until each answer."""
    waits: list[float] = []
    for _ in range(KEYS):
        waits.append(screen.press(TREE_OR_LIST) * 1000)
        screen.run(BETWEEN_S)
    return waits


def p95(waits: list[float]) -> float:
    """What 95 of 100 do not exceed."""
    return quantiles(waits, n=20)[-1]
