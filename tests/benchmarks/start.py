"""Part start: from exec to the first screen that is of use.

The screens are those of part live; a screen is of use when a pid of the job stands on it.
For mpmon, which names the job's root in its first line, the first pid of a child tells when the tree is there too.
Programs that end by themselves are timed until they have ended.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks import tools
from tests.benchmarks.job import ROOT, Job
from tests.benchmarks.table import Table, middle, ratio
from tests.benchmarks.terminal import Screen, last_words

if TYPE_CHECKING:
    from tests.benchmarks.rig import Rig

TIMEOUT_S = 10.0
ROUNDS = 3
"""A start takes a fraction of a second, so it is done so many times more often than other parts."""


@dataclass(frozen=True)
class Start:
    """One start of a program, seconds."""

    first_pid: float | None
    first_child: float | None
    cpu_s: float
    """From exec to the first pid of a child and the end that follows."""
    said: str = ""


def measure(rig: Rig) -> list[Table]:
    """Measure the screens on a job of the first size, and the programs that end."""
    return [_screens(rig, rig.sizes[0]), _commands(rig)]


def _screens(rig: Rig, processes: int) -> Table:
    table = Table(
        f"Start, {rig.state} job of {processes} processes",
        f"{rig.rounds * ROUNDS} rounds, medians; ratios within a round.",
        ("program", "first pid ms", "by nvitop", "first child ms", "by nvitop", "CPU ms, end included"),
    )
    screens = tools.screens()
    starts: dict[str, list[Start]] = {tool.name: [] for tool in screens}
    with Job(processes, hung=rig.hung) as job:
        for _ in range(rig.rounds * ROUNDS):
            for tool in screens:
                if rig.setting.problem(tool) is None:
                    starts[tool.name].append(_start(rig, tool, job))
    first = {name: [start.first_pid for start in seen] for name, seen in starts.items()}
    child = {name: [start.first_child for start in seen] for name, seen in starts.items()}
    for tool in screens:
        name, problem = tool.name, rig.setting.problem(tool)
        if problem is None and not any(first[name]):
            problem = f"no pid seen: {starts[name][-1].said}"
        if problem is not None:
            table.skip(name, problem)
            continue
        table.rows.append(
            [
                name,
                _ms(first[name]),
                ratio(first[name], first["nvitop"]),
                _ms(child[name]),
                ratio(child[name], child["nvitop"]),
                _ms([start.cpu_s for start in starts[name]]),
            ]
        )
    return table


def _start(rig: Rig, tool: tools.Tool, job: Job) -> Start:
    with Screen(tool.command(job.root), rig.setting.environment(job.pids)) as screen:
        first = screen.until_shown(job.pids, TIMEOUT_S)
        child = screen.until_shown(job.pids[1:], TIMEOUT_S) if first is not None else None
    return Start(first, child, screen.cpu_s, last_words(screen.output))


def _commands(rig: Rig) -> Table:
    table = Table(
        "Start of programs that end by themselves",
        f"{rig.rounds * ROUNDS} rounds, medians; ratios within a round.",
        ("call", "wall ms", "by python -c pass"),
    )
    base = "python -c pass"
    mpmon = [*tools.mpmon()]
    calls = {
        base: [sys.executable, "-c", "pass"],
        "mpmon --version": mpmon and [*mpmon, "--version"],
        "mpmon --help": mpmon and [*mpmon, "--help"],
        "nvitop --version": [*tools.program("nvitop"), "--version"] if tools.program("nvitop") else [],
    }
    walls: dict[str, list[float | None]] = {name: [] for name in calls}
    for _ in range(rig.rounds * ROUNDS):
        for name, command in calls.items():
            if command:
                walls[name].append(_wall(rig, command))
    for name, command in calls.items():
        if command:
            table.rows.append([name, _ms(walls[name]), ratio(walls[name], walls[base])])
        else:
            table.skip(name, "not installed")
    return table


def _wall(rig: Rig, command: list[str]) -> float:
    environment = rig.setting.environment()
    begin = time.monotonic()
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    return time.monotonic() - begin


def _ms(seconds: list[float | None]) -> str:
    return middle([value and value * 1000 for value in seconds], 0)
