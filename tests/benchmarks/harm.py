"""Part harm: what the job notices of being watched.

One process of the job is the ticker of `tests.benchmarks.ticker`, which spins and books its own gaps.
Nobody, mpmon's screen, `mpmon --once` again and again, and `py-spy dump` of the ticker each second, with and without
`--nonblocking`, take turns at watching. `py-spy dump` stops the process and shows what the measure finds when one does.
Throughput by wall time also shows the CPU the watcher takes from a full machine; by CPU time it does not.

A second job hangs around the ticker: all others wait for a lock that a sleeper holds.  There each `mpmon --once` goes to
its verdict, which takes a search through the memory of every process that knows the lock, the ticker's too.
"""

from __future__ import annotations

import functools
import subprocess
import time
from typing import TYPE_CHECKING

from tests.benchmarks import ticker, tools
from tests.benchmarks.job import ROOT, Job
from tests.benchmarks.table import Table, middle, ratio
from tests.benchmarks.terminal import Screen, kill_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.rig import Rig

    Watchers = dict[str, Callable[[Rig, Job, float], None] | None]

LOOK_S = 1.0
NOBODY = "nobody"


def measure(rig: Rig) -> list[Table]:
    """Measure two tables per size of the job: one as `rig` says, one that hangs in a lock."""
    return [table for processes in rig.sizes for table in (_as_told(rig, processes), _to_the_verdict(rig, processes))]


def _as_told(rig: Rig, processes: int) -> Table:
    job = functools.partial(Job, processes, hung=rig.hung)
    return _table(rig, f"Harm, {rig.state} job of {processes} processes", job, _watchers())


def _to_the_verdict(rig: Rig, processes: int) -> Table:
    job = functools.partial(Job, processes, stuck="holding")
    return _table(rig, f"Harm of a verdict, job of {processes} processes that hangs in a lock", job, _judges())


def _table(rig: Rig, title: str, make_job: Callable[..., Job], watchers: Watchers) -> Table:
    table = Table(
        title,
        f"{rig.rounds} rounds of {rig.seconds:.0f} s, medians; ratios within a round. "
        "A stop: the ticker, which never sleeps, was put to sleep.",
        (
            "watcher",
            "throughput by nobody",
            "by CPU-s, by nobody",
            "p99.9 gap ms",
            "longest gap ms",
            "stops/s",
            "stopped ms/s",
            "longest stop ms",
        ),
    )
    seen = _readings(rig, make_job, {name: watch for name, watch in watchers.items() if watch is not None})
    for name in watchers:
        if name not in seen:
            table.skip(name, "not installed")
            continue
        table.rows.append(_row(name, seen[name], seen[NOBODY]))
    return table


def _row(name: str, seen: list[ticker.Reading], base: list[ticker.Reading]) -> list[str]:
    return [
        name,
        ratio([r.work_per_s for r in seen], [r.work_per_s for r in base], 3),
        ratio([r.work_per_cpu_s for r in seen], [r.work_per_cpu_s for r in base], 3),
        middle([r.gap_p999_ms for r in seen], 2),
        middle([r.gap_longest_ms for r in seen]),
        middle([r.stops_per_s for r in seen], 2),
        middle([r.stopped_ms_per_s for r in seen], 2),
        middle([r.stop_longest_ms for r in seen], 2),
    ]


def _readings(
    rig: Rig, make_job: Callable[..., Job], watchers: dict[str, Callable[[Rig, Job, float], None]]
) -> dict[str, list[ticker.Reading]]:
    """Let the watchers take turns in front of one job."""
    seen: dict[str, list[ticker.Reading]] = {name: [] for name in watchers}
    board = ticker.make_board()
    with make_job(board=board) as job:
        for _ in range(rig.rounds):
            for name, watch in watchers.items():
                before = ticker.read(board)
                watch(rig, job, rig.seconds)
                seen[name].append(ticker.between(before, ticker.read(board)))
    return seen


def _watchers() -> Watchers:
    """Who watches, `None` for a program that is not installed."""
    mpmon, spy = tools.mpmon(), tools.program("py-spy")
    return {
        NOBODY: _nobody,
        "mpmon PID": _screen if mpmon else None,
        "mpmon PID --once, again and again": _once if mpmon else None,
        "py-spy dump, each second": _dump if spy else None,
        "py-spy dump --nonblocking, each second": _dump_nonblocking if spy else None,
    }


def _judges() -> Watchers:
    """Who watches a job that hangs."""
    return {
        NOBODY: _nobody,
        "mpmon PID --once, to the verdict, again and again": _verdict if tools.mpmon() else None,
        "py-spy dump, each second": _dump if tools.program("py-spy") else None,
    }


def _nobody(_rig: Rig, _job: Job, seconds: float) -> None:
    time.sleep(seconds)


def _screen(rig: Rig, job: Job, seconds: float) -> None:
    with Screen(tools.mpmon_live().command(job.root), rig.setting.environment(job.pids)) as screen:
        screen.run(seconds)


def _once(rig: Rig, job: Job, seconds: float) -> None:
    words = [str(job.root), "--once", "--for", str(LOOK_S), "--json"]
    _repeat(rig, job, [*tools.mpmon(), *words], every=0.0, seconds=seconds)


def _verdict(rig: Rig, job: Job, seconds: float) -> None:
    _repeat(rig, job, [*tools.mpmon(), str(job.root), "--once", "--json"], every=0.0, seconds=seconds)


def _dump(rig: Rig, job: Job, seconds: float) -> None:
    command = [*tools.program("py-spy"), "dump", "--pid", str(job.pids[-1])]
    _repeat(rig, job, command, every=LOOK_S, seconds=seconds)


def _dump_nonblocking(rig: Rig, job: Job, seconds: float) -> None:
    command = [*tools.program("py-spy"), "dump", "--nonblocking", "--pid", str(job.pids[-1])]
    _repeat(rig, job, command, every=LOOK_S, seconds=seconds)


def _repeat(rig: Rig, job: Job, command: list[str], *, every: float, seconds: float) -> None:
    """Call a program no more often than `every` seconds, until the time is up; one still at work then is killed."""
    environment = rig.setting.environment(job.pids)
    deadline = time.monotonic() + seconds
    while (begin := time.monotonic()) < deadline:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=deadline - begin)
        except subprocess.TimeoutExpired:
            kill_group(process)
        time.sleep(max(0.0, min(begin + every, deadline) - time.monotonic()))
