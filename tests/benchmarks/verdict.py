"""Part verdict: from the start of mpmon on a job that hangs to the report with cause and suspect.

`mpmon PID --once --json` is timed to its end, the second look included, in front of a job that has hung for longer than
mpmon needs to look, in two shapes of the job: one worker sleeps over its batch, or sleeps with a lock of
`multiprocessing` that all others wait for, so that the memory of every process is searched for who holds it.
A report without the cause, or with another suspect than the sleeper, is not counted but told.
Beside it, in turns, `py-spy dump --nonblocking` of each process one after the other: stacks alone, for a person to read.
One more call of mpmon is recorded, and the recording tells where the time goes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mpmon.session.recording import read_recording
from tests.benchmarks import tools
from tests.benchmarks.job import ROOT, THREADS, Job
from tests.benchmarks.table import Table, middle, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpmon.model import Snapshot
    from tests.benchmarks.job import Stuck
    from tests.benchmarks.rig import Rig

HUNG_FOR_S = 30.0
"""Age of the hang at the first measurement: there is nothing left to wait for but mpmon's own second look."""

HUNG_ENOUGH_S = 10.0
"""The same where only the growth with threads counts."""

TARGETS_S = {50: 3.0, 200: 6.0}
"""Seconds to the verdict, by the processes of the job."""

HUNG = 3
"""Exit status of `mpmon --once`."""

SHAPES: dict[Stuck, str] = {"asleep": "worker-stuck", "holding": "worker-stuck"}
"""How the job hangs, and the cause that is right."""

MANY_THREADS = (10, 100, 400, 1600)
SPREADS = (2, 16)
"""Processes over which so many threads are spread, the root with its few not counted."""


@dataclass(frozen=True)
class Look:
    """One call of mpmon."""

    wall_s: float
    cpu_s: float
    problem: str
    """What is wrong with the report; empty for the truth."""


@dataclass
class Looks:
    """What was measured on one job."""

    mpmon: list[Look] = field(default_factory=list)
    dumps: list[Look] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def wall(self) -> list[float | None]:
        """Seconds of those calls that told the truth."""
        return [None if look.problem else look.wall_s for look in self.mpmon]

    @property
    def problem(self) -> str:
        """What the last wrong report said."""
        return next((look.problem for look in reversed(self.mpmon) if look.problem), "")


def measure(rig: Rig) -> list[Table]:
    """Measure how the time grows with processes, where it goes, and how it grows with threads."""
    seen = {(shape, size): _looks(rig, size, shape) for size in rig.sizes for shape in SHAPES}
    return [_verdicts(rig, seen), _phases(seen), _threads(rig)]


def _verdicts(rig: Rig, seen: dict[tuple[Stuck, int], Looks]) -> Table:
    table = Table(
        "Time to the verdict",
        f"{rig.rounds} rounds, medians; ratios within a round. A job that has hung for {HUNG_FOR_S:.0f} s; "
        "from the start of `mpmon PID --once --json` to its end.",
        ("job", "mpmon s", "slowest s", "target s", "CPU s", "py-spy of each s", "by py-spy", "its CPU s"),
    )
    for (shape, size), looks in seen.items():
        name = f"{size} processes, one {shape}"
        if looks.problem:
            table.skip(name, looks.problem)
            continue
        table.rows.append(
            [
                name,
                middle(looks.wall, 2),
                f"{max(look.wall_s for look in looks.mpmon):.2f}",
                f"{TARGETS_S[size]:.0f}" if size in TARGETS_S else "",
                middle([look.cpu_s for look in looks.mpmon], 2),
                middle([look.wall_s for look in looks.dumps], 2),
                ratio(looks.wall, [look.wall_s for look in looks.dumps]),
                middle([look.cpu_s for look in looks.dumps], 2),
            ]
        )
    return table


def _phases(seen: dict[tuple[Stuck, int], Looks]) -> Table:
    names = ("start-up", "processes", "kernel", "stacks", "semaphores", "diagnosis and waiting", "end")
    table = Table("Where the time to the verdict goes", "One recorded call; seconds.", ("job", *names, "rounds"))
    for (shape, size), looks in seen.items():
        cells = [f"{looks.phases.get(name, 0.0):.2f}" for name in names]
        table.rows.append([f"{size} processes, one {shape}", *cells, f"{looks.phases.get('rounds', 0):.0f}"])
    return table


def _threads(rig: Rig) -> Table:
    table = Table(
        "Time to the verdict by threads",
        f"{rig.rounds} rounds, medians. The first look is what mpmon does before it waits for the second.",
        ("threads", "worker processes", "mpmon s", "first look s", "ms a thread", "CPU s", "CPU ms a thread"),
    )
    for processes in SPREADS:
        for threads in MANY_THREADS:
            each = max(1, threads // (processes - 1))
            looks = _looks(rig, processes, "asleep", threads=each, age_s=HUNG_ENOUGH_S)
            total = each * (processes - 1)
            if looks.problem:
                table.skip(str(total), looks.problem)
                continue
            first = sum(looks.phases.get(name, 0.0) for name in ("processes", "kernel", "stacks", "semaphores"))
            cpu = [look.cpu_s for look in looks.mpmon]
            table.rows.append(
                [
                    str(total),
                    str(processes - 1),
                    middle(looks.wall, 2),
                    f"{first:.3f}",
                    f"{first / total * 1000:.2f}",
                    middle(cpu, 2),
                    middle([figure / total * 1000 for figure in cpu], 2),
                ]
            )
    return table


def _looks(rig: Rig, processes: int, shape: Stuck, *, threads: int = THREADS, age_s: float = HUNG_FOR_S) -> Looks:
    """Let mpmon and py-spy take turns in front of one job."""
    looks = Looks()
    with Job(processes, stuck=shape, threads=threads) as job:
        time.sleep(age_s)
        for _ in range(rig.rounds):
            looks.mpmon.append(_look(rig, job, SHAPES[shape]))
            if tools.program("py-spy"):
                looks.dumps.append(_dumps(job.pids))
        looks.phases = _where_time_goes(rig, job)
    return looks


def _look(rig: Rig, job: Job, cause: str) -> Look:
    cpu, begin = _cpu_s(), time.monotonic()
    done = _once(rig, job)
    wall = time.monotonic() - begin
    return Look(wall, _cpu_s() - cpu, _problem(done, job, cause))


def _once(rig: Rig, job: Job, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [*tools.mpmon(), str(job.root), "--once", "--json", *words]
    environment = rig.setting.environment(job.pids)
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )


def _problem(done: subprocess.CompletedProcess[bytes], job: Job, cause: str) -> str:
    if done.returncode != HUNG:
        return f"exit status {done.returncode}"
    finding = json.loads(done.stdout)["findings"][0]
    suspects = [row["pid"] for row in finding["suspects"]]
    if finding["cause"] != cause or suspects != [job.culprit]:
        return f"{finding['cause']} of {len(suspects)} processes"
    return ""


def _dumps(pids: Sequence[int]) -> Look:
    command = [*tools.program("py-spy"), "dump", "--nonblocking", "--pid"]
    cpu, begin = _cpu_s(), time.monotonic()
    for pid in pids:
        subprocess.run([*command, str(pid)], capture_output=True, check=False)
    return Look(time.monotonic() - begin, _cpu_s() - cpu, "")


def _where_time_goes(rig: Rig, job: Job) -> dict[str, float]:
    """Seconds by phase, from the moments and durations in a recording of one more call."""
    with tempfile.TemporaryDirectory(dir=rig.setting.folder) as folder:
        file = Path(folder) / "recording.jsonl"
        begin = time.time()
        done = _once(rig, job, "--record", str(file))
        end = time.time()
        if done.returncode != HUNG:
            return {}
        return _split(list(read_recording(file)), begin, end)


def _split(rounds: list[Snapshot], begin: float, end: float) -> dict[str, float]:
    phases = {"start-up": rounds[0].taken_at - begin, "rounds": float(len(rounds))}
    for snapshot in rounds:
        for probe in snapshot.probes:
            phases[probe.name] = phases.get(probe.name, 0.0) + probe.seconds
    looking = sum(probe.seconds for snapshot in rounds[:-1] for probe in snapshot.probes)
    phases["diagnosis and waiting"] = rounds[-1].taken_at - rounds[0].taken_at - looking
    phases["end"] = end - rounds[-1].taken_at
    return phases


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
