"""Queues that are full, and whoever could empty them."""

from __future__ import annotations

from mpmon.diagnosis.findings import Diagnosis
from mpmon.model import Row, SemaphoreUse
from tests.builders import ROOT, blocked, holds, kernel_object, process, snapshot, stack, thread, watched

PARSERS = (4121, 4122)
TASKS, RESULTS = "semaphore:00:1:0", "semaphore:00:2:0"
PUTS = "multiprocessing/queues.py:89 Queue.put"


def put(pid: int, queue: str) -> tuple[Row, ...]:
    """It waits for room in a queue; by the ledgers main put tasks and never took a result."""
    counts = ((TASKS, 10), (RESULTS, 0)) if pid == ROOT else ((TASKS, -3), (RESULTS, 2))
    return (
        process(pid, parent=1 if pid == ROOT else ROOT, cmdline=("python", f"{pid}.py")), thread(pid),
        stack("main", PUTS, f"job.py:{pid % 100} work", pid=pid), blocked("futex", queue, pid=pid, ran_at=0.0),
        *(SemaphoreUse(pid=pid, object=name, count=count, max_value=4) for name, count in counts),
        *(holds(pid, name) for name, _ in counts),
    )  # fmt: skip


def of(*parts: tuple[Row, ...]) -> Diagnosis:
    full = (kernel_object(TASKS, value=0), kernel_object(RESULTS, value=0))
    return watched(snapshot(*full, *(row for part in parts for row in part)))


def test_all_tasks_are_put_before_any_result_is_taken() -> None:
    finding = of(put(ROOT, TASKS), *(put(pid, RESULTS) for pid in PARSERS)).findings[0]
    assert finding.cause == "queue-full"
    assert [suspect.pid for suspect in finding.suspects] == [ROOT]
    assert "every process that could take something out is itself in put()" in finding.summary
