"""Ranks that gather: who is told when they wait for each other, and who may still be on the way."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Row
from tests.builders import ROOT, START, blocked, diagnosed, frame, process, running, snapshot, stack, thread

GATHERS = ("torch/distributed/distributed_c10d.py:1700 init_process_group", "train.py:4 main")
BOOTSTRAP = ("multiprocessing/process.py:108 BaseProcess.run", "multiprocessing/process.py:314 BaseProcess._bootstrap")
JOIN = ("multiprocessing/popen_fork.py:40 wait", "multiprocessing/process.py:149 join", "train.py:20 <module>")


def said(*rows: Row, seconds: int = 14) -> Diagnosis:
    return diagnosed([snapshot(*rows, at=float(second)) for second in range(seconds)])


def launcher() -> tuple[Row, ...]:
    agent = "torch/distributed/elastic/agent/server/api.py:900 _invoke_run"
    return (
        process(cmdline=("python", "torchrun", "train.py")),
        stack("main", agent, "torch/distributed/run.py:918 main"),
        blocked("clock_nanosleep", ran_at=START - 60),
    )


def rank(number: int, *, world_size: int = 2) -> tuple[Row, ...]:
    """A rank in `init_process_group`, where it has been for a minute."""
    environment = {"RANK": str(number), "WORLD_SIZE": str(world_size)}
    pid = 4110 + number
    return (
        process(pid, parent=ROOT, environment=environment),
        stack("main", *GATHERS, pid=pid),
        blocked("poll", pid=pid, ran_at=START - 60),
    )


def test_ranks_that_wait_for_each_other_are_one_finding() -> None:
    found = said(*launcher(), *rank(0), *rank(1))
    assert [finding.cause for finding in found.findings] == ["rendezvous"]
    assert [suspect.role for suspect in found.findings[0].suspects] == ["rank 0", "rank 1"]
    assert [waiter.role for waiter in found.findings[0].waiters] == ["launcher"]


def spawned(pid: int, *frames: str, number: int | None = None) -> tuple[Row, ...]:
    """A child of multiprocessing that runs `train`; once it has a number, it is a rank in `init_process_group`."""
    main = frame("train.py:9 train") if number is None else frame("train.py:9 train", rank=str(number), world_size="2")
    inner = ("torch/distributed/rendezvous.py:190 _create_c10d_store",) if number is not None else frames
    return process(pid, parent=ROOT), stack("main", *inner, main, *BOOTSTRAP, pid=pid)


def parent() -> tuple[Row, ...]:
    return process(), stack("main", *JOIN), blocked("wait4", "process:4111", ran_at=START - 60)


def test_a_child_of_the_same_function_may_still_become_the_missing_rank() -> None:
    def rows(second: int) -> tuple[Row, ...]:
        waits = *spawned(4111, number=0), blocked("poll", pid=4111, ran_at=START - 60)
        loads = (
            *spawned(4112, f"train.py:{40 + second} load"),
            running(4112),
            thread(4112, slices=9 * second, run_s=second),
        )
        return *parent(), *waits, *loads

    found = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert found.verdict is not Verdict.HUNG


@pytest.mark.parametrize("other", [(), ("4112",)])
def test_a_rank_that_nobody_is_about_to_become_never_came(other: tuple[str, ...]) -> None:
    """Another child that stands still itself is no reason to wait."""
    waits = *spawned(4111, number=0), blocked("poll", pid=4111, ran_at=START - 60)
    stands = [
        row
        for pid in map(int, other)
        for row in (*spawned(pid, "train.py:40 load"), blocked("read", pid=pid, ran_at=START - 60))
    ]
    found = said(*parent(), *waits, *stands)
    assert found.findings[0].cause == "rendezvous"
    assert "never came" in found.findings[0].summary
