"""Records the jobs for pictures that no case in `tests/hangs/` has: `python screenshots/record.py [NAME ...]`.

The jobs are real, and mpmon reads them as it reads any job.  Only the NVIDIA driver is the stand-in of `tests/nvml`, which
says of each process what such a job looks like; a machine with GPUs would need no such thing.

A job says `settled` when it runs, and `stuck` when there is something to see.
"""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.hangs.record import Case, Job, _names, _read, anonymous  # noqa: E402  found by the line above
from tests.nvml import GIB, MIB, Scenario, build, environment  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

STUCK_RANK = 3
AFTER_S = 42.0
"""How long is recorded what there is to see."""

LONGEST_S = 240.0


def record(name: str) -> Path:
    """Run the job of a folder until some time after it says that it is stuck; the recording."""
    folder = HERE / "jobs" / name
    case = msgspec.toml.decode((folder / "case.toml").read_bytes(), type=Case)
    case.command = [word.replace("{repository}", str(HERE.parent)) for word in case.command]
    with tempfile.TemporaryDirectory() as made, Job(folder, case, sys.executable) as job:
        work = Path(made)
        scenario, facts = work / "scenario", work / "facts.jsonl"
        dice = random.Random(7)
        job.settle()
        (root,) = told(job, "root")
        DRIVERS[name](job, dice, stuck=False).write(scenario)
        command = [sys.executable, "-m", "mpmon", str(root), "--json", "--record", str(facts)]
        watch = subprocess.Popen(
            command, env=environment(scenario, build(work)), cwd=HERE.parent, stdout=subprocess.DEVNULL
        )
        try:
            follow(job, scenario, name, dice)
        finally:
            watch.send_signal(signal.SIGINT)
            watch.wait()
        lines = anonymous(facts.read_bytes(), _names(job) | {str(HERE.parent): "/home/user/mpmon"})
    new = HERE / "recordings" / f"{name}.jsonl.gz"
    with new.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(lines)
    return new


def follow(job: Job, scenario: Path, name: str, dice: random.Random) -> None:
    """Let the driver say each second what it would say of such a job."""
    started, stuck_at = time.monotonic(), None
    while time.monotonic() < started + LONGEST_S and (stuck_at is None or time.monotonic() < stuck_at + AFTER_S):
        if stuck_at is None and told(job, "stuck"):
            stuck_at = time.monotonic()
        # The other ranks come to the collective within a step.
        stuck = stuck_at is not None and time.monotonic() > stuck_at + 1
        DRIVERS[name](job, dice, stuck=stuck).write(scenario)
        time.sleep(1.0)


def told(job: Job, event: str) -> list[int]:
    """The pids that said so, in their order."""
    return [line.pid for line in job.told() if line.event == event]


def ranks(job: Job) -> dict[int, int]:
    """Pid of each rank: the oldest process with its number."""
    found: dict[int, int] = {}
    for pid, _ in sorted(job.members(), key=lambda key: (key[1], key[0])):
        variables = dict(pair.partition(b"=")[::2] for pair in _read(pid, "environ").split(b"\0"))
        if b"LOCAL_RANK" in variables:
            found.setdefault(int(variables[b"LOCAL_RANK"]), pid)
    return found


def driver_of_ranks(job: Job, dice: random.Random, *, stuck: bool) -> Scenario:
    """Ranks that compute; once one is stuck, its GPU is idle, and the others spin at low power."""
    pids = ranks(job)
    said = Scenario(gpus=8, name="NVIDIA H100 80GB HBM3", memory_total=80 * GIB, temperature=54)
    for rank, pid in sorted(pids.items()):
        memory = (58 * 1024 + 740 * rank) * MIB
        busy = (0 if rank == STUCK_RANK else 100) if stuck else dice.randint(91, 99)
        watts = (96 if rank == STUCK_RANK else dice.randint(124, 131)) if stuck else dice.randint(585, 660)
        said.gpu(
            rank, utilization=busy, memory_utilization=0 if stuck else dice.randint(38, 49), power=watts * 1000,
            memory_used=memory + 600 * MIB, temperature=(41 if stuck else 54) + rank % 5, sm_clock=1980,
        ).process(rank, pid, memory=memory, sm=busy)  # fmt: skip
    return said


def driver_of_weights(job: Job, dice: random.Random, *, stuck: bool) -> Scenario:
    """A trainer and its children, the samplers, each on a GPU; what was sent is the trainer's."""
    del stuck
    said = Scenario(gpus=3, name="NVIDIA H100 80GB HBM3", memory_total=80 * GIB, temperature=48)
    (trainer,) = told(job, "root")
    shared = sum(file.stat().st_size for file in Path("/dev/shm").glob(f"torch_{trainer}_*"))
    for gpu, pid in enumerate([trainer, *told(job, "sampler")]):
        memory = (31 - 9 * gpu) * GIB + (shared if pid == trainer else 0)
        busy = dice.randint(84, 97) if gpu == 0 else dice.randint(35, 60)
        said.gpu(
            gpu, utilization=busy, memory_utilization=busy // 2, power=(180 + 4 * busy) * 1000, memory_used=memory + 600 * MIB,
            sm_clock=1980,
        ).process(gpu, pid, memory=memory, sm=busy)  # fmt: skip
    return said


def driver_of_nobody(job: Job, dice: random.Random, *, stuck: bool) -> Scenario:
    """A machine without GPUs."""
    del job, dice, stuck
    return Scenario(gpus=0)


DRIVERS: dict[str, Callable[..., Scenario]] = {
    "ddp": driver_of_ranks, "weights": driver_of_weights, "gloo": driver_of_nobody,
}  # fmt: skip
"""What the driver says, by job."""


def main() -> None:
    """Record the jobs named, or all."""
    os.environ.pop("NO_COLOR", None)
    for name in sys.argv[1:] or sorted(folder.name for folder in (HERE / "jobs").iterdir()):
        print(record(name))


if __name__ == "__main__":
    main()
