"""How long a standstill must last: longer if it began while mpmon watched, and somebody unknown may end it."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.thresholds import FROM_START_S, OPEN_PATIENCE_S, PATIENCE_S, STOPPED_PATIENCE_S
from mpmon.model import Exit, Row, Snapshot
from tests.builders import ROOT, START, blocked, diagnosed, kernel_object, process, running, snapshot, stack, thread

COMPUTES_S = 10
STARTS, WORKS = 4121, 4122
ANSWER = ("lib/socket.py:700 read", "job.py:40 main")


def computes(second: int) -> Snapshot:
    rows = process(cpu_s=float(second)), thread(slices=9 * second, run_s=second), running()
    return snapshot(*rows, stack("main", f"job.py:{3 + second} parse", at=second), at=float(second))


def in_call(second: int, began: int, *, state: str = "S") -> Snapshot:
    """A server elsewhere has not answered since then."""
    rows: tuple[Row, ...] = process(state=state, cpu_s=float(began)), thread(slices=9 * began, run_s=began)
    waits = blocked("recvfrom", state=state, ran_at=START + began)
    return snapshot(*rows, stack("main", *ANSWER, at=began), waits, at=float(second))


def after(standing_s: float, *, computed_s: int, state: str = "S") -> Diagnosis:
    """So many seconds after the call began, watched from the beginning."""
    calls = range(computed_s, computed_s + int(standing_s) + 1)
    before = map(computes, range(computed_s))
    return diagnosed([*before, *(in_call(second, computed_s, state=state) for second in calls)])


@pytest.mark.parametrize(
    ("computed_s", "standing_s", "verdict"),
    [
        (0, PATIENCE_S + 1, Verdict.HUNG),
        (COMPUTES_S, PATIENCE_S + 3, Verdict.SLOW),
        (COMPUTES_S, OPEN_PATIENCE_S - 2, Verdict.SLOW),
        (COMPUTES_S, OPEN_PATIENCE_S + 1, Verdict.HUNG),
    ],
)
def test_one_that_was_seen_to_compute_has_longer_to_wait(computed_s: int, standing_s: float, verdict: Verdict) -> None:
    found = after(standing_s, computed_s=computed_s)
    assert found.verdict is verdict
    assert found.since == START + computed_s


@pytest.mark.parametrize(("age_s", "verdict"), [(FROM_START_S - 1, Verdict.UNKNOWN), (FROM_START_S + 1, Verdict.HUNG)])
def test_nobody_suspects_a_hang_of_a_job_that_has_just_begun(age_s: float, verdict: Verdict) -> None:
    """It waits for a server elsewhere since its first second, and mpmon came then, as `mpmon run` does."""

    def waits(second: int) -> Snapshot:
        server = kernel_object("socket:7", peer="socket:8", path="tcp 10.0.0.1:40000 to 10.0.0.2:80")
        asks = stack("main", *ANSWER), blocked("recvfrom", "socket:7", ran_at=START)
        return snapshot(process(start_time=START - age_s), thread(), *asks, server, at=float(second))

    assert diagnosed([*map(waits, range(int(PATIENCE_S) + 4))]).verdict is verdict


def test_not_if_the_one_who_should_have_acted_crashed() -> None:
    """Main waits for a message of its child, which ended with an error."""
    child = process(4121, parent=ROOT, state="Z", exit_code=1 << 8)

    def waits(second: int) -> Snapshot:
        rows = process(cpu_s=COMPUTES_S), thread(slices=9 * COMPUTES_S, run_s=COMPUTES_S), child
        waits = blocked("msgrcv", ran_at=START + COMPUTES_S)
        return snapshot(*rows, stack("main", "job.py:40 main", at=COMPUTES_S), waits, at=float(second))

    end = COMPUTES_S + int(PATIENCE_S) + 2
    found = diagnosed([*map(computes, range(COMPUTES_S)), *map(waits, range(COMPUTES_S, end))])
    assert [finding.cause for finding in found.findings] == ["worker-dead"]


@pytest.mark.parametrize(("standing_s", "hangs"), [(STOPPED_PATIENCE_S - 2, False), (STOPPED_PATIENCE_S + 1, True)])
def test_one_that_is_stopped_less_long(standing_s: float, *, hangs: bool) -> None:
    found = after(standing_s, computed_s=COMPUTES_S, state="T")
    assert (found.verdict is Verdict.HUNG) == hangs


def polls(second: int, *, worked_s: int) -> Snapshot:
    """Main looks once a second whether a process that was started by another one has finished, which works for so long."""
    looks = process(), thread(slices=second), stack("main", "job.py:9 main")
    sleeps = blocked("clock_nanosleep", wakes_at=START + second + 0.5)
    if second < worked_s:
        busy = process(WORKS, parent=STARTS, cpu_s=float(second)), thread(WORKS, slices=9 * second, run_s=second)
        others = (*busy, stack("main", f"job.py:{20 + second} work", pid=WORKS, at=second), running(WORKS))
    else:
        others = (Exit(pid=WORKS, start_time=START, seen_at=START + worked_s, process=process(WORKS, parent=STARTS)),)
    return snapshot(*looks, sleeps, process(STARTS, parent=ROOT, exe="/bin/sh"), *others, at=float(second))


@pytest.mark.parametrize(("later_s", "hangs"), [(0, False), (1, False), (3, True)])
def test_one_that_polls_may_be_about_to_see_that_a_process_has_ended(later_s: int, *, hangs: bool) -> None:
    found = diagnosed([polls(second, worked_s=20) for second in range(21 + later_s)])
    assert (found.verdict is Verdict.HUNG) == hangs


def test_ends_that_come_all_the_time_bring_nothing() -> None:
    def looks(second: int) -> Snapshot:
        ends = (
            Exit(pid=5000 + at, start_time=START, seen_at=START + at, process=process(5000 + at, parent=STARTS))
            for at in range(max(0, second - 20), second + 1)
        )
        sleeps = blocked("clock_nanosleep", wakes_at=START + second + 0.5)
        rows = process(), thread(slices=second), stack("main", "job.py:9 main"), sleeps
        return snapshot(*rows, process(STARTS, parent=ROOT, exe="/bin/sh"), *ends, at=float(second))

    assert diagnosed(list(map(looks, range(40)))).verdict is Verdict.HUNG


@pytest.mark.parametrize(("pause_s", "hangs"), [(0.5, True), (2.0, False), (9.0, False), (30.0, False)])
def test_one_that_looks_every_few_seconds_has_something_to_do_then(pause_s: float, *, hangs: bool) -> None:
    """Main waits in rounds for an event that nobody sets: `while not stop.wait(9): report()`."""

    def waits(second: int) -> Snapshot:
        rounds = int(second / pause_s)
        began = START + rounds * pause_s
        event = stack("main", "lib/threading.py:331 Condition.wait", "lib/threading.py:629 Event.wait", "job.py:9 main")
        row = blocked("futex", "futex:4100:0x70", ran_at=began, wakes_at=began + pause_s)
        return snapshot(process(), thread(slices=rounds), event, row, at=float(second))

    assert (diagnosed([*map(waits, range(20))]).verdict is Verdict.HUNG) == hangs
