"""Of several processes that have inherited an end, those use it whose calls name it."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.edges import node
from mpmon.diagnosis.graph import Basis, WaitEdge
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Frame, Handle, Row
from tests.builders import ROOT, blocked, frame, history, kernel_object, process, running, snapshot, stack, thread

ASKS, FIRST, SECOND = 4121, 4122, 4123
NEAR, FAR, PIPE = "socket:7", "socket:8", "pipe:9"
RUN = "multiprocessing/process.py:108 Process.run"
READS = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/connection.py:250 Connection.recv")
OF_NEAR, OF_FAR = 3, 4
"""Descriptors, the same in all forks."""


def naming(place: str, *ends: int) -> Frame:
    return msgspec.structs.replace(frame(place), ends=ends)


JOINS = ("multiprocessing/popen_fork.py:27 Popen.poll", "multiprocessing/process.py:149 Process.join")


def idle(pid: int, *frames: str | Frame) -> tuple[Row, ...]:
    """It waits for the end of another process."""
    return (
        process(pid, parent=ROOT, forked=True), thread(pid), blocked("wait4", pid=pid, ran_at=0.0),
        stack("main", *JOINS, *frames, pid=pid),
    )  # fmt: skip


def at_work(pid: int, *frames: str | Frame) -> tuple[Row, ...]:
    return process(pid, parent=ROOT, forked=True), thread(pid), running(pid), stack("main", *frames, pid=pid)


def asked(*others: tuple[Row, ...]) -> WaitEdge:
    """Who could send what the first one waits for, when each has both ends of a connection."""
    ends = [
        Handle(pid=pid, object=name, fd=fd)
        for pid in (ASKS, FIRST, SECOND) for name, fd in ((NEAR, OF_NEAR), (FAR, OF_FAR))
    ]  # fmt: skip
    rows = (
        process(), thread(), blocked("wait4", ran_at=0.0), stack("main", "job.py:60 <module>"),
        process(ASKS, parent=ROOT, forked=True), thread(ASKS), blocked("read", NEAR, pid=ASKS, ran_at=0.0),
        stack("main", *READS, naming("job.py:20 work", OF_NEAR), RUN, naming("job.py:60 <module>", OF_FAR), pid=ASKS),
        kernel_object(NEAR, path="unix", peer=FAR), kernel_object(FAR, path="unix", peer=NEAR), *ends,
    )  # fmt: skip
    first = snapshot(*rows, *(row for each in others for row in each))
    found = node(JobState(history(first), first), (ASKS, ASKS)).edge
    assert found
    return found


def test_the_one_that_names_the_end() -> None:
    edge = asked(idle(FIRST, naming("job.py:30 serve", OF_FAR), RUN), idle(SECOND, "job.py:40 other", RUN))
    assert edge.targets == ((FIRST, FIRST),)
    assert edge.evidence.endswith(f"only the calls of pid {FIRST} name that end")
    assert edge.basis is Basis.ASSUMED, "the other one has it too"


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(idle(FIRST, "job.py:30 serve", RUN), id="nobody names it"),
        pytest.param(idle(FIRST, naming("job.py:30 serve", OF_FAR, OF_NEAR), RUN), id="who made the pair names both"),
        pytest.param(
            idle(FIRST, "job.py:30 serve", RUN, naming("job.py:60 <module>", OF_FAR)), id="its parent named it"
        ),
    ],
)
def test_otherwise_each_may_be_meant(first: tuple[Row, ...]) -> None:
    assert set(asked(first, idle(SECOND, "job.py:40 other", RUN)).targets) == {(FIRST, FIRST), (SECOND, SECOND)}


def test_who_does_anything_else_may_always_be_meant() -> None:
    """It may reach the end through an object or a global variable."""
    edge = asked(idle(FIRST, naming("job.py:30 serve", OF_FAR), RUN), at_work(SECOND, "job.py:40 other", RUN))
    assert set(edge.targets) == {(FIRST, FIRST), (SECOND, SECOND)}


def test_what_a_bare_fork_names_may_be_its_parent_s() -> None:
    names = idle(FIRST, naming("job.py:30 serve", OF_FAR), RUN)
    assert set(asked(names, idle(SECOND, "job.py:40 other")).targets) == {(FIRST, FIRST), (SECOND, SECOND)}
