"""Part look: what one look at a whole job costs, without a screen.

mpmon's sampler three ways: its first round on a job, a later round of one that stays, and the one round of
`--once` that asks the kernel and py-spy about every process. Beside it a bare psutil walk (find the children, then CPU,
memory and state of each, nothing kept) and `py-spy dump --nonblocking` of each process.
Counted is the CPU of this process and of the children it waited for; the ways take turns in front of one job.
"""

from __future__ import annotations

import resource
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from mpmon.probes.files import Proc
from mpmon.session.clock import LiveClock
from mpmon.session.sampler import Sampler
from mpmon.session.thorough import StackMode
from tests.benchmarks import tools
from tests.benchmarks.job import Job
from tests.benchmarks.table import Table, middle, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.rig import Rig

WALK = "psutil walk"
DUMP = "py-spy dump --nonblocking of each"
ATTRIBUTES = ["cpu_times", "memory_info", "status"]


@dataclass(frozen=True)
class Spent:
    """What one look took, seconds."""

    cpu: float
    wall: float


def measure(rig: Rig) -> list[Table]:
    """Measure one table per size of the job."""
    return [_table(rig, processes) for processes in rig.sizes]


def _table(rig: Rig, processes: int) -> Table:
    table = Table(
        f"One look, {rig.state} job of {processes} processes",
        f"{rig.rounds} rounds, medians; ratios within a round.",
        ("way", "CPU ms", "by psutil walk", "by py-spy", "wall ms", "CPU us a process"),
    )
    with Job(processes, hung=rig.hung) as job:
        sampler = _settled_sampler(job)
        ways = _ways(job, sampler)
        spent: dict[str, list[Spent]] = {name: [] for name in ways}
        for _ in range(rig.rounds):
            for name, look in ways.items():
                if look is not None:
                    spent[name].append(_spent(look))
        sampler.close()
    cpu = {name: [look.cpu * 1000 for look in looks] for name, looks in spent.items()}
    for name, looks in spent.items():
        if not looks:
            table.skip(name, "not installed")
            continue
        table.rows.append(
            [
                name,
                middle(cpu[name]),
                ratio(cpu[name], cpu[WALK]),
                ratio(cpu[name], cpu[DUMP], 3),
                middle([look.wall * 1000 for look in looks]),
                middle([figure * 1000 / processes for figure in cpu[name]], 0),
            ]
        )
    return table


def _ways(job: Job, sampler: Sampler) -> dict[str, Callable[[], None] | None]:
    """Each way of looking, `None` for one that is not installed."""
    return {
        "mpmon, first round": lambda: _first_round(job),
        "mpmon, later round": lambda: _later_round(sampler),
        "mpmon, round with all stacks": lambda: _thorough_round(job),
        WALK: lambda: _walk(job),
        DUMP: (lambda: _dump(job)) if tools.program("py-spy") else None,
    }


def _sampler(job: Job, stacks: StackMode) -> Sampler:
    """Return a new sampler; with stacks it is one of `--once`, that looks at everything in its first round."""
    return Sampler(Proc(), job.root, now=LiveClock().now, host="", stacks=stacks, eager=stacks == "auto")


def _settled_sampler(job: Job) -> Sampler:
    """Return a sampler that has looked at everything once, as after some seconds of a screen."""
    sampler = _sampler(job, "never")
    sampler.round()
    sampler.round()
    while sampler.pending:
        sampler.round()
    return sampler


def _first_round(job: Job) -> None:
    sampler = _sampler(job, "never")
    sampler.round()
    sampler.close()


def _later_round(sampler: Sampler) -> None:
    sampler.round()


def _thorough_round(job: Job) -> None:
    sampler = _sampler(job, "auto")
    sampler.round()
    sampler.close()


def _walk(job: Job) -> None:
    root = psutil.Process(job.root)
    for process in [root, *root.children(recursive=True)]:
        process.as_dict(ATTRIBUTES)


def _dump(job: Job) -> None:
    command = [*tools.program("py-spy"), "dump", "--nonblocking", "--pid"]
    for pid in job.pids:
        subprocess.run([*command, str(pid)], capture_output=True, check=False)


def _spent(look: Callable[[], None]) -> Spent:
    cpu, wall = _cpu_s(), time.monotonic()
    look()
    return Spent(_cpu_s() - cpu, time.monotonic() - wall)


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
