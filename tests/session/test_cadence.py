"""How soon a screen looks again at a job, by what it was found to be."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, takewhile
from typing import Any, cast

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Snapshot
from mpmon.session.cadence import CALM_AFTER_S, CALM_S, LONGEST_S, SHARE, SOON_S, interval_s
from mpmon.session.clock import LiveClock
from mpmon.session.watch import LiveWatch
from tests.builders import ROOT, START, blocked, process, running, snapshot, stack, thread

LONG = 10 * CALM_AFTER_S
WELL = Diagnosis(verdict=Verdict.HEALTHY)


def test_a_job_that_is_well_is_looked_at_less_often() -> None:
    assert interval_s(WELL, LONG, 0.0) == CALM_S


@pytest.mark.parametrize(("cost_s", "then_s"), [(CALM_S / 2, CALM_S), (3.0, 3.0), (2 * LONGEST_S, LONGEST_S)])
def test_a_job_whose_rounds_cost_more_is_looked_at_less_often(cost_s: float, then_s: float) -> None:
    assert interval_s(WELL, LONG, cost_s * SHARE) == pytest.approx(then_s)


@pytest.mark.parametrize(
    ("found", "watched_s"),
    [
        (WELL, CALM_AFTER_S / 2),
        (msgspec.structs.replace(WELL, since=1.0), LONG),
        *((Diagnosis(verdict=verdict), LONG) for verdict in Verdict if verdict is not Verdict.HEALTHY),
    ],
    ids=str,
)
def test_every_second_counts(found: Diagnosis, watched_s: float) -> None:
    assert interval_s(found, watched_s, 1.0) == SOON_S


class Jumps(LiveClock):
    """A clock in which a wait takes no time."""

    def __init__(self, round_s: float) -> None:
        """A round takes `round_s` of CPU time."""
        super().__init__()
        self.seconds = 0.0
        self._round_s, self._spent_s = round_s, 0.0

    def now(self) -> float:
        return START + self.seconds

    def cpu_s(self) -> float:
        self._spent_s += self._round_s
        return self._spent_s

    def wait(self, seconds: float) -> bool:
        self.seconds += seconds
        return False


STOPS_S = 60.5


class Job:
    """Sees a program that computes, until it sleeps for ever."""

    root, has_ranks, pending = (ROOT, 0), False, False

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def round(self, _: object) -> Snapshot:
        at = self._now() - START
        ran = min(at, STOPS_S)
        sleeps = at >= STOPS_S
        rests = blocked("futex", "futex:4100:0x70", ran_at=STOPS_S) if sleeps else running()
        rows = (
            process(cpu_s=1 + ran),
            thread(slices=int(10 * ran)),
            stack("main", f"job.py:{30 + int(ran) % 9} main", at=ran),
        )
        return snapshot(*rows, rests, at=at)

    def note_ranks(self, _: object) -> None:
        """Nobody is one."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("round_s", "calm_s"), [(0.001, CALM_S), (1.0, LONGEST_S)])
def test_from_the_round_in_which_it_stands_still_every_second_counts(round_s: float, calm_s: float) -> None:
    clock = Jumps(round_s)
    watch = LiveWatch(lambda now: cast("Any", Job(now)), interval=None, clock=clock)
    moments = [row.snapshot.taken_at - START for row in takewhile(lambda _: clock.seconds < STOPS_S + 20, watch)]
    gaps = {before: after - before for before, after in pairwise(moments)}
    assert {gap for at, gap in gaps.items() if CALM_AFTER_S <= at < STOPS_S} == {calm_s}
    assert {gap for at, gap in gaps.items() if not CALM_AFTER_S <= at < STOPS_S + calm_s} == {SOON_S}
