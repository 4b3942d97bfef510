"""A server that has as many files open as it may accepts no connection."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Frame, Limits, Row, Task
from tests.builders import ROOT, START, blocked, diagnosed, holds, kernel_object, process, snapshot, stack, thread

SERVER = 4110


def said(*more: Row, descriptors: int, seconds: int = 14) -> Diagnosis:
    """Of a client that waits for an answer over a connection that its server, which tries again each second, has not accepted."""
    return diagnosed([
        snapshot(
            process(), thread(), stack("main", "job.py:26 <module>"), blocked("recvfrom", "socket:10", ran_at=START),
            process(SERVER, parent=ROOT), thread(SERVER, slices=9 * second),
            stack("main", "/usr/lib/python3.12/asyncio/base_events.py:1910 _run_once", "serve.py:40 <module>", pid=SERVER),
            blocked("epoll_wait", "socket:1", pid=SERVER, ran_at=START + second, timeout_s=1.0),
            kernel_object("socket:1", listens=True, path="tcp listening on 127.0.0.1:40001"), holds(SERVER, "socket:1"),
            kernel_object("socket:10", listener="socket:1", path="tcp 127.0.0.1:40002 to 127.0.0.1:40001"),
            holds(ROOT, "socket:10"), Limits(pid=SERVER, descriptors=descriptors, descriptors_limit=48), *more,
            at=float(second),
        )
        for second in range(seconds)
    ])  # fmt: skip


def test_it_is_to_blame() -> None:
    (finding,) = said(descriptors=48).findings
    assert (finding.cause, [row.pid for row in finding.suspects]) == ("shm-exhausted", [SERVER])
    assert "has 48 of 48 files open, so it cannot accept the connection" in finding.summary


@pytest.mark.parametrize("short", [{"descriptors": 47}, {"descriptors": 48, "seconds": 9}])
def test_it_may_yet_accept(short: dict[str, int]) -> None:
    assert said(**short).verdict is not Verdict.HUNG


WORKS = Task(
    pid=SERVER, tid=SERVER, object="task:4110:0x10", name="Task-7", waits="future", callbacks=0,
    frames=(Frame(function="answer", file="/home/user/job/serve.py", line=18),),
)  # fmt: skip
SERVES: tuple[Row, ...] = (
    thread(SERVER, SERVER + 1), blocked("clock_nanosleep", pid=SERVER, tid=SERVER + 1, wakes_at=START + 60.0),
    stack("Thread-1", "serve.py:30 answer", pid=SERVER, tid=SERVER + 1),
)  # fmt: skip


@pytest.mark.parametrize("more", [(WORKS,), SERVES], ids=["a-task", "a-thread"])
def test_who_works_on_requests_will_close_their_connections(more: tuple[Row, ...]) -> None:
    assert said(*more, descriptors=48).verdict is not Verdict.HUNG
