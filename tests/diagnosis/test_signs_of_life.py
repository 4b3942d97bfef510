"""What a process did before it came to stand where it is says nothing about the present: a job may run for hours before it
hangs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.thresholds import OPEN_PATIENCE_S, RECENT_S
from mpmon.model import Row, Snapshot
from tests.builders import ROOT, START, blocked, diagnosed, frame, process, running, snapshot, stack, thread

WORKER = 4120
BORN = (
    "lib/multiprocessing/process.py:314 BaseProcess._bootstrap",
    "lib/multiprocessing/popen_fork.py:71 Popen._launch",
)
POOL = ("multiprocessing/pool.py:48 mapstar", "multiprocessing/pool.py:125 worker", *BORN)
MAIN = (
    process(), thread(), blocked("futex", ran_at=START - 60),
    stack("main", "multiprocessing/pool.py:768 ApplyResult.wait", "multiprocessing/pool.py:367 Pool.map", "job.py:40 main"),
)  # fmt: skip

HEALTHY = 10
"""Seconds."""


def worker(second: int, *, works: int, spins: bool) -> tuple[Row, ...]:
    """It has read and computed until that second; then it is in one call and goes round in circles, or sleeps and looks again."""
    busy = min(second, works)
    task = msgspec.structs.replace(frame("job.py:20 work", arguments=busy), plain={"left": busy}, carried=("left",))
    stands = running(WORKER) if spins else blocked("clock_nanosleep", pid=WORKER, wakes_at=START + second + 0.2)
    found = stack("main", task, *POOL, pid=WORKER, at=second)
    return (
        process(WORKER, parent=ROOT, read_bytes=4096 * busy, cpu_s=float(second if spins else busy)),
        thread(WORKER, slices=9 * second),
        msgspec.structs.replace(found, owns_gil=spins, turning=(0,) if spins and second > works else ()), stands,
    )  # fmt: skip


def after(seconds: int, *, spins: bool, works: int = HEALTHY) -> Diagnosis:
    """So long after the last sign of life."""
    return diagnosed([_round(second, works, spins=spins) for second in range(HEALTHY + seconds + 1)])


def _round(second: int, works: int, *, spins: bool) -> Snapshot:
    return snapshot(*MAIN, *worker(second, works=works, spins=spins), at=float(second))


@pytest.mark.parametrize("spins", [True, False], ids=["computes", "polls"])
def test_a_worker_that_did_much_before_it_got_stuck(spins: bool) -> None:
    found = after(int(RECENT_S + OPEN_PATIENCE_S) + 2, spins=spins)
    assert (found.verdict, [row.pid for row in found.findings[0].suspects]) == (Verdict.HUNG, [WORKER])


@pytest.mark.parametrize("spins", [True, False], ids=["computes", "polls"])
def test_one_that_goes_on_is_left_alone(spins: bool) -> None:
    assert after(int(RECENT_S) + 2, spins=spins, works=1000).verdict is not Verdict.HUNG


def test_a_pause_for_a_long_item_is_no_hang() -> None:
    assert after(int(RECENT_S) // 2, spins=True).verdict is not Verdict.HUNG


# Sleeps


def scheduler(second: int, every: int) -> tuple[Row, ...]:
    """A program that does something every so many seconds, and says so."""
    began = second - second % every
    done = second // every
    return (
        process(written_bytes=4 * done), thread(slices=done),
        stack("main", "sched.py:151 scheduler.run", "job.py:4 main", at=began),
        blocked("clock_nanosleep", ran_at=START + began, wakes_at=START + began + every),
    )  # fmt: skip


@pytest.mark.parametrize("every", [7, 20, 60])
def test_whoever_sleeps_for_long_has_something_to_do_then(every: int) -> None:
    rounds = [snapshot(*scheduler(second, every), at=float(second)) for second in range(130)]
    assert all(diagnosed(rounds[:end]).verdict is not Verdict.HUNG for end in range(5, len(rounds), 5))


# What its process writes


def polls_beside_reports(second: int, wrote: int | None) -> tuple[Row, ...]:
    """A worker polls, and its process writes a line each second; how much of it the thread itself has written."""
    found = stack("main", "job.py:20 wait_for_snapshot", *POOL, pid=WORKER, at=second)
    return (
        process(WORKER, parent=ROOT, written_bytes=30 * second), thread(WORKER, slices=9 * second),
        msgspec.structs.replace(found, wrote=wrote),
        blocked("clock_nanosleep", pid=WORKER, wakes_at=START + second + 0.2),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrote", "verdict"),
    [(lambda _: 500, Verdict.HUNG), (lambda second: 30 * second, Verdict.SLOW), (lambda _: None, Verdict.SLOW)],
    ids=["another thread writes", "it writes itself", "nobody knows"],
)
def test_what_another_thread_writes_is_no_sign_of_life(wrote: Callable[[int], int | None], verdict: Verdict) -> None:
    rounds = [snapshot(*MAIN, *polls_beside_reports(at, wrote(at)), at=float(at)) for at in range(15)]
    assert diagnosed(rounds).verdict is verdict


def test_a_worker_that_runs_too_fast_to_be_read_may_have_the_task() -> None:
    idle = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:365 SimpleQueue.get",
            "multiprocessing/pool.py:114 worker", "multiprocessing/process.py:108 BaseProcess.run")  # fmt: skip

    def rows(second: int, *other: Row) -> Snapshot:
        rests = (process(WORKER, parent=ROOT), thread(WORKER), stack("main", *idle, pid=WORKER, at=second),
                 blocked("read", pid=WORKER, ran_at=0.0))  # fmt: skip
        return snapshot(*MAIN, *rests, *other, at=float(second))

    def runs(second: int) -> tuple[Row, ...]:
        return process(WORKER + 1, parent=ROOT), thread(WORKER + 1, slices=9 * second), running(WORKER + 1)

    assert diagnosed([rows(second) for second in range(20)]).verdict is Verdict.HUNG
    assert diagnosed([rows(second, *runs(second)) for second in range(20)]).verdict is not Verdict.HUNG
