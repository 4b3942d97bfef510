"""Part shim: what the queue shim costs the job it is in.

The hooks are put in and taken out in turns inside of the same processes (`tests.benchmarks.shim_blocks`), so that a machine
that is busy with other things is busy with both.  A figure of its own is the mean of the quietest quarter of the blocks; a
difference is given for these, and as median and quartiles of all pairs of neighbouring blocks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from mpmon.launch import STARTUP
from tests.benchmarks.job import ROOT
from tests.benchmarks.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.rig import Rig

ITEMS = {
    "int": "an int, Queue",
    "simple-int": "an int, SimpleQueue",
    "shared-tensor": "1 KiB tensor that is shared already",
    "fresh-tensor": "1 KiB tensor",
    "two-tensors": "dict of 2 tensors and an int",
    "device-tensor": "CUDA tensor (stand-in of tests.ipc.standin)",
}
LOADER = "loader"
STARTS_PER_ROUND = 15


def measure(rig: Rig) -> list[Table]:
    """Measure items, a DataLoader, and starts of an interpreter."""
    return [_items(rig), _loader(rig), _starts(rig)]


def _items(rig: Rig) -> Table:
    table = Table(
        "The shim: one item through a queue, put and get together",
        f"{rig.rounds} runs of {rig.seconds:.0f} s a row, blocks in turns; us an item, wall clock and CPU of both processes.",
        ("item", "without", "with", "more", "more, pairs: median [quartiles]", "more CPU"),
    )
    for case, name in ITEMS.items():
        if "tensor" in case and importlib.util.find_spec("torch") is None:
            table.skip(name, "torch is not installed")
            continue
        wall, cpu = _blocks(rig, case)
        more = quiet(wall["on"]) - quiet(wall["off"])
        table.rows.append(
            [name, f"{quiet(wall['off']):.1f}", f"{quiet(wall['on']):.1f}", f"{more:.1f}", _pairs(wall, "{:.1f}"),
             f"{quiet(cpu['on']) - quiet(cpu['off']):.1f}"]
        )  # fmt: skip
    return table


def _loader(rig: Rig) -> Table:
    table = Table(
        "The shim: a DataLoader with one worker, 32 items of 3x64x64 a batch",
        f"{rig.rounds} runs of {rig.seconds:.0f} s, epochs in turns; ms a batch.",
        ("", "without", "with", "ratio", "ratio, pairs: median [quartiles]"),
    )
    if importlib.util.find_spec("torch") is None:
        table.skip("batch", "torch is not installed")
        return table
    wall, _ = _blocks(rig, LOADER)
    off, on = quiet(wall["off"]), quiet(wall["on"])
    ratios = [b / a for a, b in zip(wall["off"], wall["on"], strict=True)]
    table.rows.append(["batch", f"{off / 1e3:.2f}", f"{on / 1e3:.2f}", f"{on / off:.3f}", _spread(ratios, "{:.3f}")])
    return table


def _blocks(rig: Rig, case: str) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Wall clock and CPU of each block, us an item, without and with; from all runs."""
    wall: dict[str, list[float]] = {"off": [], "on": []}
    cpu: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(rig.rounds):
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="mpmon-benchmarks-") as folder:
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.shim_blocks", case, str(rig.seconds)], cwd=ROOT,
                env={**os.environ, "MPMON_RUN_DIR": folder, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, check=True,
            )  # fmt: skip
        said = json.loads(done.stdout)
        for state in ("off", "on"):
            wall[state] += said["wall"][state]
            cpu[state] += said["cpu"][state]
    return wall, cpu


def _starts(rig: Rig) -> Table:
    table = Table(
        "The shim: start of an interpreter, to its end",
        f"{rig.rounds * STARTS_PER_ROUND} starts of each in turns, ms wall clock; more: within a turn, median [quartiles].",
        ("call", "median", "more than its base"),
    )
    with tempfile.TemporaryDirectory(prefix="mpmon-benchmarks-") as place:
        calls = _calls(Path(place))
        walls: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rig.rounds * STARTS_PER_ROUND):
            for name, (code, variables, _) in calls.items():
                walls[name].append(_wall(code, variables))
        for name, (_, _, base) in calls.items():
            more = [b - a for a, b in zip(walls[base or name], walls[name], strict=True)]
            table.rows.append([name, f"{median(walls[name]):.1f}", _spread(more, "{:+.2f}") if base else "base"])
    return table


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


def _wall(code: str, variables: dict[str, str]) -> float:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MPMON", "PYTHON"))}
    # A virtual environment has no user's site-packages, so its base interpreter is started.
    command = [os.path.join(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"), "-c", code]
    begin = time.perf_counter()
    subprocess.run(command, env={**kept, **variables}, cwd="/", check=True)
    return (time.perf_counter() - begin) * 1e3


def quiet(values: Sequence[float]) -> float:
    """Mean of the smallest quarter."""
    return mean(sorted(values)[: max(1, len(values) // 4)])


def _pairs(blocks: dict[str, list[float]], form: str) -> str:
    return _spread([b - a for a, b in zip(blocks["off"], blocks["on"], strict=True)], form)


def _spread(values: Sequence[float], form: str) -> str:
    ordered = sorted(values)
    quartiles = (ordered[len(ordered) // 4], ordered[len(ordered) * 3 // 4])
    return f"{form.format(median(ordered))} [{form.format(quartiles[0])} .. {form.format(quartiles[1])}]"
