"""A rank in a native wait of its own code: for a collective that runs beside it, or for something else."""

from __future__ import annotations

import pytest

from mpmon.diagnosis import History
from mpmon.diagnosis.libraries import RANK_THREADS
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import JoinTarget, Row
from tests.builders import ROOT, blocked, process, snapshot, stack, thread

RANK, RUNNER = 7, 71


def standing_of(*rows: Row) -> Wait:
    rank = (
        process(RANK, parent=ROOT, environment={"RANK": "0", "WORLD_SIZE": "2"}), thread(RANK),
        thread(RANK, RUNNER, name=min(RANK_THREADS)),
        stack("main", "train.py:9 main", pid=RANK), blocked("futex", pid=RANK),
    )  # fmt: skip
    picture = snapshot(process(), *rank, *rows)
    return JobState(History().add(picture), picture).wait_state((RANK, RANK)).kind


@pytest.mark.parametrize(
    ("kinds", "found"),
    [(("work",), Wait.COLLECTIVE), ((), Wait.FUTEX), (("future",), Wait.FUTEX)],
    ids=["it calls a method named wait", "it calls another one", "it waits for a future"],
)
def test_by_the_name_of_the_method_that_it_calls(kinds: tuple[str, ...], found: Wait) -> None:
    assert standing_of(*(JoinTarget(pid=RANK, tid=RANK, kind=kind) for kind in kinds)) is found
