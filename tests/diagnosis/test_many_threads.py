"""What a judgement costs in a process with many threads, counted in calls: they grow less than with the pairs of threads."""

from __future__ import annotations

import cProfile
import pstats

from mpmon.diagnosis import diagnose
from mpmon.diagnosis.findings import Verdict
from mpmon.diagnosis.history import History
from mpmon.model import Row
from tests.builders import ROOT, after, blocked, history, process, snapshot, stack, thread

FEW, MANY = 50, 200
PAIRS = (MANY / FEW) ** 2


def waiting(count: int) -> History:
    """So many threads of one process, each of which waits for an event of its own, for long."""
    rows: list[Row] = [
        process(),
        thread(),
        stack("main", "job.py:20 wait"),
        blocked("futex", f"futex:{ROOT}:0x1", ran_at=0.0),
    ]
    for tid in range(ROOT + 1, ROOT + count):
        waits = stack(f"thread {tid}", "threading.py:320 wait", "job.py:30 work", tid=tid)
        rows += (thread(ROOT, tid), waits, blocked("futex", f"futex:{ROOT}:{tid:#x}", tid=tid, ran_at=0.0))
    rounds = [snapshot(*rows)]
    for _ in range(12):
        rounds.append(after(rounds[-1], 1.0))
    return history(*rounds)


def calls(count: int) -> int:
    """How many calls a judgement of them takes, once all is imported."""
    found, profile = waiting(count), cProfile.Profile()
    assert diagnose(found).verdict is Verdict.HUNG
    profile.runcall(diagnose, found)
    return pstats.Stats(profile).total_calls  # pyright: ignore[reportAttributeAccessIssue]


def test_threads_that_wait_for_each_other_are_not_judged_in_pairs() -> None:
    assert calls(MANY) / calls(FEW) < 0.6 * PAIRS
