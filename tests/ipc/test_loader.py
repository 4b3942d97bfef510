"""The queues of torch's DataLoader have names, and a healthy one gets no remark."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.ipc import QueueView
from mpmon.diagnosis.state.job_state import JobState
from tests.ipc.looking import looking_at, remarks_on
from tests.ipc.running import Job

pytestmark = pytest.mark.live

NAMES = {"loader index queue 0", "loader index queue 1", "loader result queue"}


def named(job: JobState) -> dict[str | None, QueueView]:
    return {view.name: view for view in job.ipc.queues}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_queues_of_a_loader(method: str) -> None:
    with Job("loader.py", method, "2") as running:
        workers = running.hear()["workers"]
        with looking_at(running.pid) as looking:
            job = looking.until(lambda job: named(job).keys() == NAMES)
        views = named(job)
        for number, worker in enumerate(workers):
            view = views[f"loader index queue {number}"]
            assert (view.producers, view.consumers) == ((running.pid,), (worker,))
        result = views["loader result queue"]
        assert (result.producers, result.consumers) == (tuple(sorted(workers)), (running.pid,))
        assert (result.capacity, result.reasons.get("depth")) == (None, None)


def test_a_healthy_loader_gets_no_remark() -> None:
    with Job("loader.py", "fork", "1") as running:
        running.hear()
        with looking_at(running.pid) as looking:
            for _ in range(20):
                running.order("next")
                assert remarks_on(looking.round()) == []
            # Two batches are asked for ahead, and are ready while nobody takes them.
            looking.until(lambda job: named(job)["loader result queue"].depth == 2)
