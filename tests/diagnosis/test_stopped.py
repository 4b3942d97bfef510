"""A process that is stopped, and who may let it continue."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.model import Row, Snapshot
from tests.builders import ROOT, START, blocked, diagnosed, process, running, snapshot, stack, thread

WORKER, LIMITER = 4110, 4105
RUN_S, STOP_S = 5, 13


def at(second: int, *, ran: int, stopped: bool, limits: bool = True) -> Snapshot:
    """Main waits for its worker, which runs or is stopped; a thread of main may stop it and let it continue."""
    worker: tuple[Row, ...] = (
        process(WORKER, parent=ROOT, state="T" if stopped else "R", cpu_s=float(ran)), thread(WORKER, slices=ran, run_s=ran),
        stack("main", f"job.py:{3 + ran} crunch", pid=WORKER), running(WORKER),
    )  # fmt: skip
    limiter: tuple[Row, ...] = (
        stack("main", "job.py:40 limit", tid=LIMITER), thread(tid=LIMITER),
        blocked("clock_nanosleep", tid=LIMITER, ran_at=START, wakes_at=START + second + 3),
    )  # fmt: skip
    joins = "multiprocessing/popen_fork.py:40 wait", "multiprocessing/process.py:149 join", "job.py:20 <module>"
    main: tuple[Row, ...] = (
        process(),
        thread(),
        stack("main", *joins),
        blocked("wait4", f"process:{WORKER}", ran_at=START),
    )
    return snapshot(*main, *worker, *(limiter if limits else ()), at=float(second))


def turn(second: int, *, limits: bool = True) -> Snapshot:
    """It runs for some seconds and is stopped for some, again and again."""
    turns, now = divmod(second, RUN_S + STOP_S)
    return at(second, ran=turns * RUN_S + min(now, RUN_S), stopped=now >= RUN_S, limits=limits)


def seen(seconds: int, *, limits: bool = True) -> Diagnosis:
    return diagnosed([turn(second, limits=limits) for second in range(seconds)])


@pytest.mark.parametrize("limits", [False, True])
def test_it_is_not_proved_while_somebody_at_work_might_let_it_continue(*, limits: bool) -> None:
    (finding,) = seen(RUN_S + STOP_S, limits=limits).findings
    assert finding.cause == "stopped"
    assert any("might let it continue" in doubt for doubt in finding.doubts) == limits
    assert finding.certainty is not Certainty.PROVED or not limits


def test_one_that_was_let_continue_before_may_be_stopped_as_long_again() -> None:
    assert seen(2 * (RUN_S + STOP_S)).verdict is not Verdict.HUNG


def test_but_not_for_much_longer() -> None:
    begins = RUN_S + STOP_S + RUN_S
    stays = [at(second, ran=2 * RUN_S, stopped=True) for second in range(begins, begins + 2 * STOP_S + 9)]
    assert diagnosed([*map(turn, range(begins)), *stays]).verdict is Verdict.HUNG
