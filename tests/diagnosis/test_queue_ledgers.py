"""Who owes an item, by the ledgers of the queues."""

from __future__ import annotations

import pytest

from mpmon.diagnosis import History
from mpmon.diagnosis.edges.queue_ledgers import Balance, owing
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import QueueState
from tests.builders import ROOT, process, snapshot

WORKERS = (7, 8)


def job(*queues: QueueState) -> JobState:
    picture = snapshot(process(), *(process(pid, parent=ROOT) for pid in WORKERS), *queues)
    return JobState(History().add(picture), picture)


def queue(name: str, **counts: int) -> QueueState:
    """Counts of main and of the workers `a` and `b`: above 0 for who puts, below for who gets."""
    pids = {"main": ROOT, "a": WORKERS[0], "b": WORKERS[1]}
    ledgers = tuple((pids[who], count) for who, count in counts.items())
    return QueueState(
        object=name, pid=ROOT, ledgers=ledgers, putters=tuple(pid for pid, count in ledgers if count > 0),
        getters=tuple(pid for pid, count in ledgers if count < 0),
    )  # fmt: skip


TASKS = (queue("pipe:1", main=6, a=-6), queue("pipe:2", main=6, b=-6))
EVERYBODY = (ROOT, *WORKERS)


def test_the_one_that_put_less_than_it_took() -> None:
    found = owing(job(*TASKS, queue("pipe:3", main=-11, a=6, b=5)), EVERYBODY)
    assert found == Balance(WORKERS[1], taken=6, put=5)


def orders(put: int) -> JobState:
    """Main gives an order for sixty images, `a` loads them, `b` gives one batch for each of them, and main takes these."""
    return job(
        queue("pipe:1", main=3, a=-3), queue("pipe:2", a=180, b=-180), queue("pipe:3", b=put, main=-put)
    )  # fmt: skip


def test_one_that_makes_little_of_much_owes_nothing() -> None:
    assert owing(orders(179), EVERYBODY) == Balance(WORKERS[1], taken=180, put=179)


def test_one_that_may_leave_out_many_is_not_said_to_owe() -> None:
    assert owing(orders(150), EVERYBODY) is None


@pytest.mark.parametrize(
    "results",
    [queue("pipe:3", main=-12, a=6, b=6), queue("pipe:3", main=-10, a=5, b=5), queue("pipe:3", main=-6, a=6)],
    ids=["nobody", "two of them", "one that never puts"],
)
def test_where_no_single_one_owes(results: QueueState) -> None:
    assert owing(job(*TASKS, results), EVERYBODY) is None


def test_where_somebody_does_not_say() -> None:
    results = queue("pipe:3", main=-11, b=5)
    silent = QueueState(object="pipe:4", pid=ROOT, putters=(WORKERS[0],))
    assert owing(job(*TASKS, results, silent), EVERYBODY) is None
