"""Part live: CPU per second of a screen that stays open.

mpmon, nvitop, htop and top take turns on a terminal of 200x60 in front of one job, each with a look a second: first a job
most of whose processes rest, then one that moves as training does.
Counted is the CPU of the program and its children once it has settled; what start and settling took is a column too.
mpmon settles later than the others because it looks once at the stacks of every process.
nvitop lists eight processes on the stand-in's eight devices and nothing else; htop and top read the whole machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks import tools
from tests.benchmarks.job import Job
from tests.benchmarks.rig import ACTIVE
from tests.benchmarks.table import Table, middle, ratio
from tests.benchmarks.terminal import Cost, Screen, last_words, tree_cpu_s

if TYPE_CHECKING:
    from tests.benchmarks.rig import Rig

SETTLING_S = {"mpmon": 20.0}
OTHERS_SETTLE_S = 2.0
JOB_AGE_S = 12.0
"""Age of the job at the first measurement: htop reads the maps of a process only once it is some seconds old."""


@dataclass(frozen=True)
class Round:
    """One program once."""

    settling_cpu_s: float
    """From exec until it had settled."""
    cost: Cost
    """After that."""

    @property
    def cpu(self) -> float:
        """CPU, milliseconds a second."""
        return self.cost.cpu_s / self.cost.seconds * 1000


def measure(rig: Rig) -> list[Table]:
    """Measure a table per size of the job and kind of job."""
    return [_table(rig, processes, job) for processes in rig.sizes for job in rig.jobs]


def _table(rig: Rig, processes: int, job: str) -> Table:
    table = Table(
        f"Live screen, {job} job of {processes} processes",
        f"{rig.rounds} rounds of {rig.seconds:.0f} s, medians; ratios within a round.",
        ("program", "CPU ms/s", "by nvitop", "by htop", "settling CPU ms", "KiB/s out", "RSS MiB"),
    )
    screens = tools.screens()
    problems = {tool.name: rig.setting.problem(tool) for tool in screens}
    rounds = take_turns(rig, processes, screens, problems, kind=job)
    cpu = {name: [one.cpu for one in taken] for name, taken in rounds.items()}
    for name, problem in problems.items():
        if problem is not None:
            table.skip(name, problem)
            continue
        table.rows.append(
            [
                name,
                middle(cpu[name]),
                ratio(cpu[name], cpu["nvitop"]),
                ratio(cpu[name], cpu["htop"]),
                middle([one.settling_cpu_s * 1000 for one in rounds[name]], 0),
                middle([one.cost.output_bytes / one.cost.seconds / 1024 for one in rounds[name]]),
                middle([one.cost.rss_bytes / 2**20 for one in rounds[name]], 0),
            ]
        )
    return table


def take_turns(
    rig: Rig,
    processes: int,
    screens: list[tools.Tool],
    problems: dict[str, str | None],
    *,
    kind: str,
    on_gpus: int = tools.GPUS,
) -> dict[str, list[Round]]:
    """Let the programs take turns; one that ends by itself becomes a problem and is not asked again.

    The job is of this kind, and so many of its processes are on GPUs.
    """
    rounds: dict[str, list[Round]] = {tool.name: [] for tool in screens}
    with Job(processes, hung=rig.hung, active=kind == ACTIVE) as job:
        time.sleep(JOB_AGE_S)
        for _ in range(rig.rounds):
            for tool in [tool for tool in screens if problems[tool.name] is None]:
                taken = _round(tool, job, rig.setting.environment(job.pids, on_gpus), rig.seconds)
                if isinstance(taken, str):
                    problems[tool.name] = taken
                else:
                    rounds[tool.name].append(taken)
    return rounds


def _round(tool: tools.Tool, job: Job, environment: dict[str, str], seconds: float) -> Round | str:
    """Measure one program, or tell why it ended."""
    with Screen(tool.command(job.root), environment) as screen:
        screen.run(SETTLING_S.get(tool.name, OTHERS_SETTLE_S))
        settling_cpu_s = tree_cpu_s(screen.pid)
        cost = screen.cost(seconds)
        return f"ended: {last_words(screen.output)}" if screen.ended else Round(settling_cpu_s, cost)
