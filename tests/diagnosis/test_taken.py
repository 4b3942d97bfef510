"""Answers that a process which has ended took although they were meant for another one, by the counts of the queues."""

from __future__ import annotations

from typing import Any

import pytest

from mpmon.diagnosis import History
from mpmon.diagnosis.edges.taken import taken_by_ended
from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import QueueState, Row
from tests.builders import ROOT, START, blocked, kernel_object, process, running, snapshot, stack, thread

SERVER, CLIENT = 4121, 4122
QUESTIONS, ANSWERS = "pipe:7", "pipe:8"
GETS = (
    "multiprocessing/connection.py:395 Connection._recv",
    "multiprocessing/queues.py:103 Queue.get",
    "job.py:9 take",
)
COMPUTES = ("job.py:20 answer",)


def waits(pid: int, pipe: str) -> tuple[Row, ...]:
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", *GETS, pid=pid),
        blocked("read", pipe, pid=pid, ran_at=START - 60),
    )  # fmt: skip


def computes(pid: int) -> tuple[Row, ...]:
    return process(pid, parent=ROOT), thread(pid), stack("main", *COMPUTES, pid=pid), running(pid)


def found(
    *, asked: int = 1, took: int = 2, given: int = 2, left: int = 0, computing: bool = False
) -> NoReleaser | None:
    """A client that has asked once waits, and a server has taken two questions. Who has ended asked and took so often."""
    questions = QueueState(
        object=QUESTIONS, pid=ROOT, items=left, putters=(CLIENT,), getters=(SERVER,), ledgers=((SERVER, -2), (CLIENT, 1)),
        by_ended=asked,
    )  # fmt: skip
    answers = QueueState(
        object=ANSWERS,
        pid=ROOT,
        items=0,
        putters=(SERVER,),
        getters=(CLIENT,),
        ledgers=((SERVER, given),),
        by_ended=-took,
    )
    server = computes(SERVER) if computing else waits(SERVER, QUESTIONS)
    pipes = kernel_object(QUESTIONS), kernel_object(ANSWERS)
    picture = snapshot(process(), *server, *waits(CLIENT, ANSWERS), *pipes, questions, answers)
    job = JobState(History().add(picture), picture)
    return taken_by_ended(job, (CLIENT, CLIENT), job.waits_on((CLIENT, CLIENT)))


def test_an_ended_client_took_one_answer_more_than_it_had_asked_for() -> None:
    nobody = found()
    assert nobody is not None
    assert (nobody.reason, nobody.blame) == (Absent.ANSWER_TAKEN, (CLIENT,))
    assert nobody.why.endswith("took 2 items from it and had asked for only 1")


@pytest.mark.parametrize(
    "counts",
    [{"took": 1}, {"asked": 0}, {"given": 8, "took": 4}, {"given": 1}, {"left": 1}, {"computing": True}],
    ids=[
        "it took what it had asked for", "it never asked", "a question has several answers", "an answer is still owed",
        "a question is still to be read", "the server is at work",
    ],
)  # fmt: skip
def test_nobody_took_too_much(counts: dict[str, Any]) -> None:
    assert found(**counts) is None
