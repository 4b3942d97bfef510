"""Ranks that stand in the same operation of different process groups."""

from __future__ import annotations

from mpmon.diagnosis.findings import Finding
from mpmon.model import JoinTarget, Row
from tests.builders import ROOT, START, blocked, process, snapshot, stack, thread, watched

FIRST = 4121
EVERYBODY = (0, 1, 2, 3)


def rank(number: int, line: int, group: tuple[int, ...]) -> tuple[Row, ...]:
    """It stands in an `all_reduce` of that group, called from that line."""
    pid = FIRST + number
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "4"}), thread(pid),
        thread(pid, pid + 60, name="pt_gloo_runloop"),
        stack("main", "torch/distributed/distributed_c10d.py:3252 all_reduce", f"job.py:{line} train", pid=pid),
        blocked("futex", f"futex:{pid}:0x70", pid=pid, ran_at=0.0), JoinTarget(pid=pid, tid=pid, kind="work", members=group),
    )  # fmt: skip


def said(*ranks: tuple[Row, ...]) -> tuple[Finding, set[int]]:
    """The first finding, and the numbers of its suspects."""
    joins = stack("main", "torch/multiprocessing/spawn.py:140 ProcessContext.join", "job.py:76 <module>")
    found = watched(snapshot(process(), thread(), joins, blocked(ran_at=0.0), *(row for part in ranks for row in part)))
    finding = found.findings[0]
    assert finding.cause == "collective-mismatch"
    return finding, {suspect.pid - FIRST for suspect in finding.suspects}


def test_a_rank_came_with_a_group_to_which_those_who_wait_for_it_do_not_belong() -> None:
    past = rank(0, 57, EVERYBODY), rank(1, 57, EVERYBODY)
    finding, suspects = said(*past, rank(2, 42, (2, 3)), rank(3, 42, (1, 3)))
    assert suspects == {3}
    assert "rank 3 is in the group of ranks 1 and 3 at job.py:42 in train" in finding.evidence


def test_who_is_in_both_groups_may_be_early_or_late() -> None:
    """Two that take the same two groups in another order: both are named, since nobody knows which of them is right."""
    past = rank(2, 57, EVERYBODY), rank(3, 57, EVERYBODY)
    finding, suspects = said(*past, rank(0, 42, (0, 1)), rank(1, 42, EVERYBODY))
    assert suspects == {0, 1}
    assert "wait for each other at job.py:42 in train, each in a different group" in finding.summary


def test_groups_that_are_not_known_say_nothing() -> None:
    finding, _ = said(*(rank(number, 42 + number // 2, ()) for number in range(4)))
    assert "different groups" not in finding.summary


# Ranks of tensor- and data-parallel groups


def elsewhere(number: int) -> tuple[Row, ...]:
    """It sleeps in its own code for long, and belongs to no collective of now."""
    pid = FIRST + number
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "4"}), thread(pid),
        stack("main", f"job.py:{80 + number} checkpoint", pid=pid),
        blocked("clock_nanosleep", pid=pid, ran_at=0.0, wakes_at=START + 5000.0),
    )  # fmt: skip


def suspects_among(*ranks: tuple[Row, ...]) -> set[int]:
    joins = stack("main", "torch/multiprocessing/spawn.py:140 ProcessContext.join", "job.py:76 <module>")
    found = watched(snapshot(process(), thread(), joins, blocked(ran_at=0.0), *(row for part in ranks for row in part)))
    return {suspect.pid - FIRST for suspect in found.findings[0].suspects}


def test_a_rank_outside_of_the_group_is_not_waited_for() -> None:
    """Ranks 2 and 3 are of another group, whatever they do."""
    first, second = rank(0, 42, (0, 1)), elsewhere(1)
    joins = stack("main", "torch/multiprocessing/spawn.py:140 ProcessContext.join", "job.py:76 <module>")
    rows = (process(), thread(), joins, blocked(ran_at=0.0), *first, *second, *elsewhere(2), *elsewhere(3))
    chain = watched(snapshot(*rows)).findings
    waits = {waiter.pid - FIRST: waiter.waits_for for finding in chain for waiter in finding.waiters}
    assert "rank 1" in waits[0]
    assert "rank 2" not in waits[0]


def test_one_that_is_in_a_collective_of_another_group_is_waited_for_until_it_comes_from_there() -> None:
    """Rank 0 waits for rank 2 across the data-parallel group, and rank 2 for rank 3 across its tensor-parallel one."""
    assert suspects_among(rank(0, 42, (0, 2)), rank(1, 42, (1, 3)), rank(2, 61, (2, 3)), elsewhere(3)) == {3}
