"""Semaphores whose permits processes pass round, as the free and the filled places of a ring."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Finding
from mpmon.model import Row, SemaphoreUse
from tests.builders import ROOT, blocked, holds, kernel_object, process, snapshot, stack, thread, watched

CAMERA, TRACKER = 4121, 4122
FREE, FILLED = "semaphore:00:1:0", "semaphore:00:2:0"


def waits(pid: int, semaphore: str, *, free: int, filled: int) -> tuple[Row, ...]:
    """It waits for a permit; how many more it took than it gave back of each."""
    counts = ((FREE, free), (FILLED, filled))
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", f"ring.py:{pid % 100} step", pid=pid),
        blocked("futex", semaphore, pid=pid, ran_at=0.0), kernel_object(semaphore, value=0),
        *(SemaphoreUse(pid=pid, object=name, count=count, max_value=1 << 31) for name, count in counts),
        *(holds(pid, name) for name, _ in counts),
    )  # fmt: skip


def of(camera: tuple[Row, ...], tracker: tuple[Row, ...]) -> Finding:
    joins = ("multiprocessing/process.py:149 BaseProcess.join", "ring.py:90 <module>")
    return watched(snapshot(
        process(), thread(), stack("main", *joins), blocked("wait4", f"process:{CAMERA}", ran_at=0.0),
        kernel_object(f"process:{CAMERA}"), *camera, *tracker,
    )).findings[0]  # fmt: skip


def test_whoever_gave_back_less_than_it_took_is_responsible() -> None:
    found = of(waits(CAMERA, FREE, free=58, filled=-58), waits(TRACKER, FILLED, free=-52, filled=58))
    assert (found.cause, [row.pid for row in found.suspects]) == ("lock-cycle", [TRACKER])
    assert "has taken 6 permits more than it gave back" in found.summary
    assert "after an error" in found.advice[0]


@pytest.mark.parametrize(("free", "filled"), [(-58, 58), (-59, 58)], ids=["nobody", "one that gave more"])
def test_where_that_tells_nobody_all_are(free: int, filled: int) -> None:
    found = of(waits(CAMERA, FREE, free=58, filled=-58), waits(TRACKER, FILLED, free=free, filled=filled))
    assert {row.pid for row in found.suspects} == {CAMERA, TRACKER}
