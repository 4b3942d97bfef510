"""Part shim: what the queue shim costs the job it is in.

The hooks are put in and taken out in turns inside of the same processes (`tests.benchmarks.shim_blocks`), or interpreters
with and without are started in turns, all on one CPU.  What counts is CPU time: the shim never waits, and wall clock is that
of everything else on the machine.
A difference is that of neighbours: the median of all pairs, the interval that holds the true median with 95 % confidence
(order statistics, no assumption on the distribution), and the quartiles of the pairs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from math import sqrt
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from mpmon.launch import STARTUP
from tests.benchmarks.job import ROOT
from tests.benchmarks.shim_blocks import cpu_of_children_us
from tests.benchmarks.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.benchmarks.rig import Rig

ITEMS = {
    "int": "an int, Queue",
    "simple-int": "an int, SimpleQueue",
    "shared-tensor": "1 KiB tensor that is shared already",
    "fresh-tensor": "1 KiB tensor",
    "two-tensors": "dict of 2 tensors and an int",
    "device-tensor": "CUDA tensor (stand-in of tests.ipc.standin)",
}
LOADER, LOADER_TIMES = "loader", 3
"""A block lasts some hundredths of a second, so it gets more time."""
STARTS_PER_ROUND = 25
SPREAD = ("more", "95 % of the median", "quartiles of pairs")


def measure(rig: Rig) -> list[Table]:
    """Measure items, a DataLoader, and starts of an interpreter."""
    return [_items(rig), _loader(rig), _starts(rig)]


def _items(rig: Rig) -> Table:
    table = Table(
        "The shim: one item through a queue, put and get together",
        f"{rig.rounds} runs of {rig.seconds:.0f} s a row; us of CPU an item, both processes.",
        ("item", "without", *SPREAD, "pairs"),
    )
    for case, name in ITEMS.items():
        if "tensor" in case and importlib.util.find_spec("torch") is None:
            table.skip(name, "torch is not installed")
            continue
        off, on = _blocks(rig, case)
        table.rows.append([name, f"{median(off):.1f}", *_spread(_differences(off, on), "{:.1f}"), str(len(on))])
    return table


def _loader(rig: Rig) -> Table:
    table = Table(
        "The shim: a batch of a DataLoader with one worker, 32 items of 3x64x64",
        f"{rig.rounds} runs of {LOADER_TIMES * rig.seconds:.0f} s; ms of CPU a batch, both processes; more in percent.",
        ("", "without", *SPREAD, "pairs"),
    )
    if importlib.util.find_spec("torch") is None:
        table.skip("batch", "torch is not installed")
        return table
    off, on = _blocks(rig, LOADER, LOADER_TIMES)
    percent = [(b / a - 1) * 100 for a, b in zip(off, on, strict=True)]
    table.rows.append(["batch", f"{median(off) / 1e3:.2f}", *_spread(percent, "{:+.1f} %"), str(len(on))])
    return table


def _blocks(rig: Rig, case: str, times: int = 1) -> tuple[list[float], list[float]]:
    """CPU time of each block without and of its neighbour with, us an item; from all runs."""
    off: list[float] = []
    on: list[float] = []
    for _ in range(rig.rounds):
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="mpmon-benchmarks-") as folder:
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.shim_blocks", case, str(times * rig.seconds)], cwd=ROOT,
                env={**os.environ, "MPMON_RUN_DIR": folder, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, check=True,
            )  # fmt: skip
        said = json.loads(done.stdout)
        off += said["off"]
        on += said["on"]
    return off, on


def _starts(rig: Rig) -> Table:
    table = Table(
        "The shim: start of an interpreter, to its end",
        f"{rig.rounds * STARTS_PER_ROUND} starts of each in turns; ms of CPU.",
        ("call", "median", *SPREAD),
    )
    with tempfile.TemporaryDirectory(prefix="mpmon-benchmarks-") as place, _on_one_cpu():
        calls = _calls(Path(place))
        spent: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rig.rounds * STARTS_PER_ROUND):
            for name, (code, variables, _) in calls.items():
                spent[name].append(_cpu_ms(code, variables))
        for name, (_, _, base) in calls.items():
            more = _spread(_differences(spent[base], spent[name]), "{:+.2f}") if base else ("", "base", "")
            table.rows.append([name, f"{median(spent[name]):.1f}", *more])
    return table


@contextmanager
def _on_one_cpu() -> Iterator[None]:
    """All that is started meanwhile runs there too."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(own)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _calls(place: Path) -> dict[str, tuple[str, dict[str, str], str | None]]:
    """Code, variables, and what it is compared with, by name. `.pth` files are read in a user's own site-packages."""
    code, queues = "pass", "import multiprocessing.queues"
    site = place / "base" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (site / "mpmon_shim.pth").write_bytes((STARTUP / "mpmon_shim.pth").read_bytes())
    installed = {"PYTHONUSERBASE": str(place / "base"), "PYTHONPATH": str(ROOT)}
    empty = {"PYTHONUSERBASE": str(place / "nothing"), "PYTHONPATH": str(ROOT)}
    on = {"MPMON_RUN_DIR": str(place / "run")}
    return {
        "python -c pass": (code, empty, None),
        "the line in site-packages, off": (code, installed, "python -c pass"),
        "the line in site-packages, on": (code, {**installed, **on}, "python -c pass"),
        "mpmon run": (code, {"PYTHONUSERBASE": empty["PYTHONUSERBASE"], "PYTHONPATH": str(STARTUP), **on}, "python -c pass"),
        "import mpmon.shim": ("import mpmon.shim", empty, "python -c pass"),
        queues: (queues, empty, None),
        f"{queues}, on": (queues, {**installed, **on}, queues),
        "SimpleQueue()": (_A_QUEUE, empty, None),
        "SimpleQueue(), on": (_A_QUEUE, {**installed, **on}, "SimpleQueue()"),
    }  # fmt: skip


_A_QUEUE = "import multiprocessing; queue = multiprocessing.SimpleQueue(); queue.put(1); queue.get()"


def _cpu_ms(code: str, variables: dict[str, str]) -> float:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MPMON", "PYTHON"))}
    # A virtual environment has no user's site-packages, so its base interpreter is started.
    command = [os.path.join(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"), "-c", code]
    begin = cpu_of_children_us()
    subprocess.run(command, env={**kept, **variables}, cwd="/", check=True)
    return (cpu_of_children_us() - begin) / 1e3


def _differences(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(before, after, strict=True)]


def _spread(values: Sequence[float], form: str) -> tuple[str, str, str]:
    """Median, its interval, and quartiles, in the order of `SPREAD`."""
    ordered = sorted(values)
    count = len(ordered)
    reach = 0.98 * sqrt(count)
    interval = (max(0, int(count / 2 - reach)), min(count - 1, int(count / 2 + reach)))
    return (
        form.format(median(ordered)),
        " .. ".join(form.format(ordered[at]) for at in interval),
        " .. ".join(form.format(ordered[at]) for at in (count // 4, count * 3 // 4)),
    )
