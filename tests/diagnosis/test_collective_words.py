"""What is said of ranks that are in different collectives: each once, and the odd one where one looks for it."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Finding
from mpmon.model import Row
from mpmon.session.watch import ReplayWatch
from tests.builders import ROOT, blocked, process, snapshot, stack, thread, watched
from tests.hangs.expected import HOME


def finding(job: str) -> Finding:
    *_, last = ReplayWatch(HOME / job / "recording.jsonl.gz", at_once=True)
    return last.diagnosis.findings[0]


def test_each_is_told_once_the_odd_one_first() -> None:
    """Nor is it told once more of the one from which the hang is seen that it waits."""
    assert finding("early-stop-rank0").summary == (
        "ranks are in different collectives: rank 0 in all_gather_object at trainer.py:60 in Trainer.summarize; "
        "ranks 1-3 in all_reduce at trainer.py:27 in Trainer.reduce_grads"
    )


def test_what_the_sentence_says_of_the_others_is_not_said_again() -> None:
    assert finding("early-stop-one-rank").summary.count("all_reduce") == 1


C10D = "torch/distributed/distributed_c10d.py"


def rank(number: int, function: str, *own: str) -> tuple[Row, ...]:
    pid = ROOT + 10 + number
    environment = {"RANK": str(number), "WORLD_SIZE": "2"}
    frames = (f"{C10D}:2700 {function}", *own)
    return (
        process(pid, parent=ROOT, environment=environment), thread(pid),
        stack("main", *frames, pid=pid), blocked("futex", pid=pid, ran_at=0.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "odd"),
    [
        (
            rank(0, "all_reduce", "job.py:12 evaluate", "job.py:17 main"),
            rank(1, "all_gather", "job.py:20 main"),
            "rank 1",
        ),
        (rank(0, "broadcast", "job.py:9 main"), rank(1, "barrier", "job.py:7 main"), "rank 0"),
        (rank(0, "all_reduce", "job.py:40 train"), rank(1, "all_gather", "job.py:20 validate"), "rank 0"),
    ],
    ids=["it left a call that the other is in", "it is further in the same function", "elsewhere, the lowest"],
)
def test_of_two_ranks_the_one_that_is_further_differs(
    first: tuple[Row, ...], second: tuple[Row, ...], odd: str
) -> None:
    joins = process(), stack("main", "torch/multiprocessing/spawn.py:140 join"), blocked("wait4", ran_at=0.0)
    told = watched(snapshot(*joins, *first, *second)).findings[0]
    assert (told.cause, [suspect.role for suspect in told.suspects]) == ("collective-mismatch", [odd])
