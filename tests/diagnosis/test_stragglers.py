"""Ranks for which the others wait: in an event loop that only sleeps, away from the end of rpc."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Row, Thread
from tests.builders import ROOT, START, blocked, diagnosed, process, snapshot, stack, thread, watched

LATE = 4121
WAKES_LOOP, SERVER = "socket:7", "socket:8"
IN_LOOP = (
    "lib/selectors.py:468 EpollSelector.select", "asyncio/base_events.py:1884 BaseEventLoop._run_once",
    "asyncio/base_events.py:607 BaseEventLoop.run_forever", "job.py:57 fetch_shard",
)  # fmt: skip
IN_SHUTDOWN = (
    "lib/threading.py:327 Condition.wait", "torch/distributed/rpc/api.py:320 _wait_all_workers",
    "torch/distributed/rpc/api.py:382 shutdown", "job.py:61 run",
)  # fmt: skip
IN_ALL_REDUCE = ("torch/distributed/distributed_c10d.py:3252 all_reduce", "job.py:68 train")


def rank(number: int, *frames: str, thread_name: str = "pt_gloo_runloop") -> tuple[Row, ...]:
    pid = LATE + number
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "3"}), thread(pid),
        thread(pid, pid + 60, name=thread_name), stack("main", *frames, pid=pid),
    )  # fmt: skip


def starter() -> tuple[Row, ...]:
    joins = stack("main", "torch/multiprocessing/spawn.py:140 ProcessContext.join", "job.py:76 <module>")
    return process(), thread(), joins, blocked(ran_at=0.0)


def in_loop(*watched_by_it: str, timeout_s: float | None) -> Diagnosis:
    """Rank 0 is in its event loop, the others in a collective."""
    others = [
        row for number in (1, 2) for row in (*rank(number, *IN_ALL_REDUCE), blocked(pid=LATE + number, ran_at=0.0))
    ]
    epoll = blocked("epoll_wait", WAKES_LOOP, *watched_by_it, pid=LATE, ran_at=0.0, timeout_s=timeout_s)
    return watched(snapshot(*starter(), *rank(0, *IN_LOOP), epoll, *others))


def test_a_coroutine_that_sleeps_for_a_day_keeps_the_others_waiting() -> None:
    finding = in_loop(timeout_s=86400.0).findings[0]
    assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("straggler", [LATE])


def test_one_that_sleeps_for_a_minute_wakes_by_itself() -> None:
    assert in_loop(timeout_s=60.0).verdict is not Verdict.HUNG


def test_one_that_watches_a_connection_keeps_the_others_waiting() -> None:
    assert in_loop(SERVER, timeout_s=86400.0).findings[0].cause == "straggler"


def test_without_a_time_limit_its_future_is_never_completed() -> None:
    assert in_loop(timeout_s=None).findings[0].cause == "self-deadlock"


def test_a_rank_that_does_not_come_to_the_end_of_rpc() -> None:
    ends = [
        row for number in (1, 2)
        for row in (*rank(number, *IN_SHUTDOWN, thread_name="TP_UV_loop"), blocked("futex", pid=LATE + number, ran_at=0.0))
    ]  # fmt: skip
    reads = blocked("read", pid=LATE, ran_at=0.0)
    found = watched(snapshot(*starter(), *rank(0, "job.py:41 serve", thread_name="TP_UV_loop"), reads, *ends))
    finding = found.findings[0]
    assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("straggler", [LATE])
    assert "rpc.shutdown" in finding.summary


# A rank whose script has ended

EXITS = ("lib/threading.py:1590 _shutdown",)
BEATS = ("job.py:10 Heartbeat.run", "lib/threading.py:1045 Thread._bootstrap_inner")


def ends_early(*frames: str, kind: str = "clock_nanosleep", moves: bool = False) -> Diagnosis:
    """The main thread of rank 0 waits for the end of a thread that runs every second; the others are in a collective."""
    others = [
        row for number in (1, 2) for row in (*rank(number, *IN_ALL_REDUCE), blocked(pid=LATE + number, ran_at=0.0))
    ]
    main = (*starter(), *rank(0, *EXITS), blocked("futex", pid=LATE, ran_at=0.0))

    def beats(second: int) -> tuple[Row, ...]:
        where = (f"job.py:{20 + second} train", *frames) if moves else frames
        wakes_at = START + second + 0.5 if kind == "clock_nanosleep" else None
        return (
            thread(LATE, LATE + 50, slices=second), stack("Thread-1", *where, pid=LATE, tid=LATE + 50, at=second),
            blocked(kind, pid=LATE, tid=LATE + 50, ran_at=START + second - 0.5, wakes_at=wakes_at),
        )  # fmt: skip

    return diagnosed([snapshot(*main, *beats(second), *others, at=float(second)) for second in range(12)])


def test_a_heartbeat_keeps_a_rank_whose_script_has_failed() -> None:
    finding = ends_early(*BEATS).findings[0]
    assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("collective-missing", [LATE])
    assert "the script of rank 0 has ended" in finding.summary


def test_a_thread_that_works_may_train_after_the_end_of_the_script() -> None:
    assert ends_early(*BEATS, kind="read", moves=True).verdict is not Verdict.HUNG


def test_one_that_is_in_the_collective_itself_is_there() -> None:
    found = ends_early(*IN_ALL_REDUCE, *BEATS[1:], kind="futex")
    assert all("has ended" not in row.summary for row in found.findings)


# A rank that was found in the collective and has left it


def computes_since(second: int, *, runs: bool) -> tuple[Row, ...]:
    """The others stand in the collective; rank 0 was found in it at first and, where it runs, has computed since."""
    waits = [
        row for number in (1, 2) for row in (*rank(number, *IN_ALL_REDUCE), blocked(pid=LATE + number, ran_at=0.0))
    ]
    found = rank(0, *IN_ALL_REDUCE), blocked("futex", pid=LATE, ran_at=START)
    ran = msgspec.structs.replace(thread(LATE, slices=second * runs), run_ns=second * runs * 10**9)
    first = [row for row in found[0] if not (isinstance(row, Thread) and row.tid == LATE)]
    return (*starter(), *first, found[1], ran, *waits)


@pytest.mark.parametrize("runs", [True, False])
def test_a_look_at_a_rank_that_computes_since_is_no_evidence(runs: bool) -> None:
    found = diagnosed([snapshot(*computes_since(second, runs=runs), at=float(second)) for second in range(12)])
    assert (found.verdict is Verdict.HUNG) is not runs
