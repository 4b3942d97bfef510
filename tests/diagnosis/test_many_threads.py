"""What a judgement costs in a process with many threads, counted in calls: they grow less than with the pairs of threads."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from mpmon.diagnosis import Memo, diagnose
from mpmon.diagnosis.edges import node
from mpmon.diagnosis.findings import Verdict
from mpmon.diagnosis.state.history import History
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Row
from tests.builders import (
    ROOT,
    START,
    after,
    blocked,
    history,
    holds,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
)

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


CLIENT, NEWCOMER = 9000, 9001


def serving(count: int, *, comes: bool) -> History:
    """The same of a server, each of whose threads waits for what the next request brings, perhaps of a program that comes."""
    rows: list[Row] = [
        process(), thread(), blocked("poll", "socket:1", ran_at=0.0), holds(ROOT, "socket:1"), holds(ROOT, "socket:11"),
        stack("main", "lib/selectors.py:415 select", "lib/socketserver.py:233 serve_forever", "job.py:9 serve"),
        kernel_object("socket:1", listens=True, path="tcp listening on 127.0.0.1:40001"),
        kernel_object("socket:10", peer="socket:11", path="tcp 127.0.0.1:40002 to 127.0.0.1:40001"),
        process(CLIENT, parent=ROOT), thread(CLIENT), stack("main", "job.py:50 ask", pid=CLIENT), holds(CLIENT, "socket:10"),
        blocked("recvfrom", "socket:10", pid=CLIENT, ran_at=0.0),
    ]  # fmt: skip
    if comes:
        sleeps = blocked("clock_nanosleep", pid=NEWCOMER, wakes_at=START + 60.0)
        rows += (
            process(NEWCOMER, parent=ROOT),
            thread(NEWCOMER),
            stack("main", "job.py:60 trade", pid=NEWCOMER),
            sleeps,
        )
    for tid in range(ROOT + 1, ROOT + count):
        waits = stack(f"thread {tid}", "lib/threading.py:320 wait", "job.py:30 next", tid=tid)
        rows += (thread(ROOT, tid), waits, blocked("futex", f"futex:{ROOT}:{tid:#x}", tid=tid, ran_at=0.0))
    rounds = [snapshot(*rows)]
    for _ in range(12):
        rounds.append(after(rounds[-1], 1.0))
    return history(*rounds)


@pytest.mark.parametrize("comes", [False, True])
def test_the_threads_of_a_server_share_who_could_help_them(*, comes: bool) -> None:
    found = serving(FEW, comes=comes)
    assert found.snapshot
    job = JobState(found, found.snapshot, Memo())
    edges = [node(job, (ROOT, ROOT + number)).edge for number in (1, 2)]
    assert edges[0]
    assert edges[1]
    assert edges[0].targets is edges[1].targets
    assert ((NEWCOMER, NEWCOMER) in edges[0].targets) is comes
