"""Jobs with GPUs, from second to second, for the tests of what is remarked about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Process, Row, Snapshot
from tests.builders import (
    ROOT,
    blocked,
    gpu,
    history,
    holds,
    on_gpu,
    process,
    running,
    snapshot,
    stack,
    thread,
)

Rows = tuple[Row, ...]
LOADER = "torch/utils/data/dataloader.py"
GIB = 1024
"""MiB."""


def rank(number: int, **more: object) -> Process:
    """Pid 10 and up."""
    environment = {"RANK": str(number), "LOCAL_RANK": str(number)}
    return process(10 + number, parent=ROOT, environment=environment, exe="/usr/bin/python3", **more)


def ranks(count: int = 2) -> Rows:
    """A launcher and its ranks."""
    return (process(cmdline=("torchrun", "train.py")), *map(rank, range(count)))


def stands(pid: int, line: str = "train.py:42 step") -> Rows:
    """A main thread that waits in one line for ever."""
    return thread(pid), stack("main", line, pid=pid), blocked("poll", pid=pid)


def spins(pid: int, second: int) -> Rows:
    """A main thread that burns CPU in one call."""
    return thread(pid, slices=10 + second, run_s=second), stack("main", "train.py:42 step", pid=pid), running(pid)


def moves(pid: int, second: int, *frames: str) -> Rows:
    """A main thread that gets on."""
    inner = stack("main", *frames, f"train.py:{20 + second % 7} step", pid=pid, at=second)
    return thread(pid, slices=10 + second, run_s=second), inner, running(pid)


def rounds(seconds: int, facts: Callable[[int], Iterable[Row]]) -> list[Snapshot]:
    """One round a second."""
    return [snapshot(*facts(second), at=second) for second in range(seconds + 1)]


def said(topic: str, seen: Snapshot | list[Snapshot]) -> list[Remark]:
    """The remarks of one topic after these rounds."""
    samples = seen if isinstance(seen, list) else [seen]
    return [remark for remark in remarks(JobState(history(*samples), samples[-1])) if remark.topic == topic]


def words(found: list[Remark]) -> str:
    """All that they say."""
    return "\n".join(line for row in found for line in (row.summary, *row.evidence, *row.advice))


USED = (*ranks(), on_gpu(10, 0), on_gpu(11, 1))


def worker(pid: int = 30, *, parent: int = 10, **more: object) -> Process:
    return process(pid, parent=parent, name="pt_data_worker", forked=True, environment={"RANK": "0"}, **more)


SPINNING = {"utilization_percent": 100.0, "memory_utilization_percent": 0.0, "power_watts": 110.0}
WORKING = {"utilization_percent": 96.0, "memory_utilization_percent": 40.0, "power_watts": 540.0}


def busy(number: int, second: int, **values: object) -> Rows:
    """A device with its rank's context."""
    return gpu(number, at=second, **values), on_gpu(10 + number, number, mib=40 * GIB, sm_percent=99.0)


def synchronize(second: int, count: int = 2, *frames: str, **values: object) -> Rows:
    """All ranks burn their CPUs in one line, each with its GPU."""
    asks = [stack("main", *frames, "train.py:42 step", pid=pid, at=second) for pid in range(10, 10 + count)]
    burnt = [(thread(row.pid, slices=10 + second, run_s=second), row, running(row.pid)) for row in asks]
    devices = [row for number in range(count) for row in busy(number, second, **{**SPINNING, **values})]
    return (*ranks(count), *(row for rows in burnt for row in rows), *devices)


def both_hang(second: int) -> Rows:
    return (*ranks(), *stands(10), *stands(11), *busy(0, second, **SPINNING), *busy(1, second, **SPINNING))


def growing(per_s: dict[int, float | None], *, seconds: int = 200) -> list[Snapshot]:
    """Ranks whose memory changes by so many MiB a second, beginning at 20 GiB."""

    def facts(second: int) -> Rows:
        contexts = (
            on_gpu(10 + number, number, mib=None if speed is None else 20 * GIB + speed * second)
            for number, speed in per_s.items()
        )
        devices = (gpu(number, at=second, memory_used_bytes=30 << 30) for number in per_s)
        return (*ranks(len(per_s)), *devices, *contexts)

    return rounds(seconds, facts)


WAITS_FOR_BATCH = ("multiprocessing/queues.py:113 Queue.get", f"{LOADER}:1275 _try_get_data")
LOADS_ALONE = ("data.py:9 __getitem__", "torch/utils/data/_utils/fetch.py:52 fetch", f"{LOADER}:700 _next_data")


def trains(percent: float | None, *frames: str, every: int = 1, workers: int = 2) -> list[Snapshot]:
    """A rank that is found in these frames at every so many looks."""

    def facts(second: int) -> Rows:
        main = moves(10, second, *(frames if second % every == 0 else ()))
        children = [worker(30 + number) for number in range(workers)]
        reads = [row for child in children for row in stands(child.pid, "data.py:20 read")]
        return (*ranks(1), *main, *children, *reads, gpu(0, at=second, utilization_percent=percent), on_gpu(10))

    return rounds(15, facts)


def healthy(second: int) -> Rows:
    """Two ranks at work, each on its own device."""
    return (
        *ranks(), worker(), *moves(10, second), *moves(11, second), *busy(0, second, **WORKING), *busy(1, second, **WORKING),
        holds(30, "device:/dev/nvidia0"), holds(10, "device:/dev/nvidia0"), holds(11, "device:/dev/nvidia1"),
    )  # fmt: skip
