"""Part replay: how long a person waits for an answer to a key while a recording of a large job plays.

A real job is recorded first, by a program of its own; then the recording plays on a screen of 200x60 at the speed it was
made, and is asked for the tree and the list by turns, as in part keys.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mpmon.session.recording import count_rounds
from tests.benchmarks import tools
from tests.benchmarks.job import ROOT, Job
from tests.benchmarks.keys import BETWEEN_S, KEYS, p95, press
from tests.benchmarks.table import Table, middle
from tests.benchmarks.terminal import Screen, tree_cpu_s

if TYPE_CHECKING:
    from tests.benchmarks.rig import Rig

RECORDED_S = 45.0
"""Long enough that every process was looked at, and that the keys find it playing."""

PLAYED_S = 5.0
"""Before the first key."""


def measure(rig: Rig) -> list[Table]:
    """Measure one table per size of the job."""
    return [_table(rig, processes) for processes in rig.sizes]


def _table(rig: Rig, processes: int) -> Table:
    table = Table(
        f"Keys on a recording of {processes} processes that plays",
        f"{rig.rounds} rounds of {KEYS} keys that turn the tree into a list and back; milliseconds until the answer.",
        ("round", "key, median ms", "key, p95 ms", "slowest ms", "CPU ms/s", "recorded rounds", "recording MiB"),
    )
    with tempfile.TemporaryDirectory(dir=rig.setting.folder) as folder:
        recording = Path(folder) / "job.jsonl.gz"
        _record(rig, processes, recording)
        for number in range(1, rig.rounds + 1):
            waits, cpu = _play(rig, recording)
            table.rows.append(
                [
                    str(number),
                    middle(waits),
                    f"{p95(waits):.1f}",
                    f"{max(waits):.1f}",
                    f"{cpu:.1f}",
                    str(count_rounds(recording)),
                    f"{recording.stat().st_size / 2**20:.1f}",
                ]
            )
    return table


def _record(rig: Rig, processes: int, recording: Path) -> None:
    with Job(processes, hung=rig.hung) as job:
        program = subprocess.Popen(
            [*tools.mpmon(), str(job.root), "--plain", "--record", str(recording)], cwd=ROOT,
            env=rig.setting.environment(job.pids), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            program.wait(RECORDED_S)
        except subprocess.TimeoutExpired:
            program.terminate()
            program.wait()


def _play(rig: Rig, recording: Path) -> tuple[list[float], float]:
    """Milliseconds until each answer, and CPU in milliseconds a second meanwhile."""
    with Screen([*tools.mpmon(), "--replay", str(recording)], rig.setting.environment()) as screen:
        screen.run(PLAYED_S)
        cpu = tree_cpu_s(screen.pid)
        waits = press(screen)
        seconds = KEYS * BETWEEN_S + sum(waits) / 1000
        return waits, (tree_cpu_s(screen.pid) - cpu) / seconds * 1000
