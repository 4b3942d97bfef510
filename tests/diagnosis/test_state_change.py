"""A loop that works and sleeps in one line gets on when what its variables lead to changes."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec
import pytest

from mpmon.diagnosis import Memo
from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.progress.state_change import got_nothing_since
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Row, Stack
from tests.builders import ROOT, START, blocked, diagnosed, history, process, snapshot, stack, thread

LINE = "train.py:5 <module>"
TASK = ("data.py:5 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop")


def naps(contents: Callable[[int], int], *frames: str, counts: bool = False) -> Diagnosis:
    """What is said of a main thread that sleeps again and again at one line, with a variable that leads to these; if it `counts`,
    to nothing but a number.
    """

    def rows(second: int) -> tuple[Row, ...]:
        seen: Stack = stack("main", *(frames or (LINE,)), at=second)
        seen = msgspec.structs.replace(seen, contents=((0, 3, 77), (0, 4, contents(second))))
        number = ((0, 4, 78, {".attempts": contents(second)}),) if counts else ()
        seen = msgspec.structs.replace(seen, counts=number, limits=() if counts else None)
        return process(), thread(slices=100 * second), seen, blocked("clock_nanosleep", wakes_at=0.0)

    return diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])


def test_a_loop_of_a_module_that_counts_gets_on() -> None:
    found = naps(lambda second: second)
    assert found.verdict is Verdict.HEALTHY
    assert found.because.startswith("main is making progress")


@pytest.mark.parametrize(("changes", "verdict"), [(True, Verdict.HEALTHY), (False, Verdict.HUNG)])
def test_what_changes_from_one_nap_to_the_next_is_progress_however_often_it_is_read_in_a_nap(
    *, changes: bool, verdict: Verdict
) -> None:
    def rows(second: int) -> tuple[Row, ...]:
        nap = second // 4
        seen = msgspec.structs.replace(stack("main", LINE, at=second), contents=((0, 4, nap if changes else 5),))
        began = START + 4 * nap
        return process(), thread(slices=nap), seen, blocked("clock_nanosleep", ran_at=began, wakes_at=began + 4)

    assert diagnosed([snapshot(*rows(second), at=float(second)) for second in range(20)]).verdict is verdict


@pytest.mark.parametrize(
    "contents",
    [lambda _: 5, lambda second: 5 if second < 9 else 6, lambda _: -1, lambda second: second if second % 2 else -1],
    ids=["nothing-changes", "changed-once", "not-to-be-seen", "seldom-seen"],
)
def test_a_poll_for_what_never_comes_does_not(contents: Callable[[int], int]) -> None:
    found = naps(contents)
    assert found.verdict is Verdict.HUNG
    assert [suspect.pid for suspect in found.findings[0].suspects] == [ROOT]


@pytest.mark.parametrize(("only_looks", "verdict"), [(True, Verdict.HUNG), (False, Verdict.HEALTHY)])
def test_what_changes_in_a_library_s_call_that_only_looks_is_its_own(*, only_looks: bool, verdict: Verdict) -> None:
    """The connection over which a lock of redis is asked for counts what it has sent."""

    def rows(second: int) -> tuple[Row, ...]:
        asks = stack("main", "lib/site-packages/redis/lock.py:235 Lock.acquire", LINE, at=second)
        asks = msgspec.structs.replace(
            asks, contents=((0, 4, second),), tests=("do_acquire",), only_looks=only_looks, limits=()
        )
        return process(), thread(slices=100 * second), asks, blocked("clock_nanosleep", wakes_at=0.0)

    assert diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)]).verdict is verdict


def test_the_thread_that_another_one_waits_for_is_named() -> None:
    def rows(second: int) -> tuple[Row, ...]:
        works = stack("Thread-1", f"train.py:{5 + second} work", tid=4101, at=second)
        joins = stack("main", "lib/threading.py:1119 Thread.join", "train.py:20 <module>")
        return (
            process(), thread(), thread(tid=4101, slices=9 * second), joins, works, blocked("futex", ran_at=START - 9),
            blocked("clock_nanosleep", tid=4101),
        )  # fmt: skip

    found = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert found.verdict is Verdict.HEALTHY
    assert "for its thread Thread-1, which is making progress" in found.because


def test_counting_inside_of_a_task_that_does_not_end_is_no_progress() -> None:
    assert naps(lambda second: second, *TASK, counts=True).verdict is Verdict.HUNG


def test_collecting_inside_of_a_task_is_progress() -> None:
    assert naps(lambda second: second, *TASK).verdict is Verdict.HEALTHY


# Attempts that are counted

GETS = (
    "lib/selectors.py:415 _PollLikeSelector.select", "multiprocessing/connection.py:947 wait",
    "multiprocessing/connection.py:440 Connection._poll", "multiprocessing/queues.py:113 Queue.get", "job.py:58 collect",
)  # fmt: skip
WORKER = 4300


def in_variable(seen: Stack, second: int) -> Stack:
    *called, own = seen.frames
    own = msgspec.structs.replace(
        own, locals_digest=second, plain={"empty": zlib.crc32(b"%d" % second)}, trend={"empty": 1}
    )
    return msgspec.structs.replace(seen, frames=(*called, own), contents=((0, 3, 77), (0, 4, 78)))


def in_attribute(seen: Stack, second: int) -> Stack:
    counts = ((0, 3, 77, {".done": 5, ".empty": second}),)
    return msgspec.structs.replace(seen, contents=((0, 3, 1000 + second), (0, 4, 78)), counts=counts)


def gets_again(
    second: int, *, counted: Callable[[Stack, int], Stack], read: int | None, limits: tuple[str, ...] | None
) -> tuple[Row, ...]:
    """Main counts how often its get() timed out; its worker stands in a get() of its own."""
    seen = counted(stack("main", *GETS, at=second), second)
    seen = msgspec.structs.replace(seen, read=read, limits=limits)
    return (
        process(), thread(slices=9 * second), seen, blocked("poll", timeout_s=1.0, ran_at=START + second - 0.5),
        process(WORKER, parent=ROOT), thread(WORKER),
        stack("main", "multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 Queue.get",
              "job.py:20 encode", pid=WORKER),
        blocked("read", pid=WORKER, ran_at=START - 9),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("read", "limits", "hangs"),
    [
        (lambda _: 500, (), True),
        (lambda _: 500, ("left",), True),
        (lambda _: 500, ("empty",), False),
        (lambda _: 500, ("empty 3",), True),
        (lambda _: 500, ("empty 30",), False),
        (lambda _: 500, ("empty 3", "empty 30"), False),
        (lambda _: 500, None, False),
        (lambda second: 500 + second, (), False),
        (lambda _: None, (), False),
    ],
    ids=[
        "got-nothing",
        "other-limit",
        "acts-after-some",
        "acted-then",
        "acts-later",
        "acted-and-acts-later",
        "source-unknown",
        "got-something",
        "not-counted",
    ],
)
def test_the_count_of_attempts_is_no_progress(
    read: Callable[[int], int | None], limits: tuple[str, ...] | None, *, hangs: bool
) -> None:
    rounds = (gets_again(second, counted=in_variable, read=read(second), limits=limits) for second in range(16))
    found = diagnosed([snapshot(*rows, at=float(second)) for second, rows in enumerate(rounds)])
    assert (found.verdict is Verdict.HUNG) == hangs


@pytest.mark.parametrize(
    ("limits", "hangs"),
    [((), True), ((".done", "most", "self"), True), ((".empty", "self"), False), (None, False)],
    ids=["no-limit", "other-limit", "acts-after-some", "source-unknown"],
)
def test_the_same_for_a_count_in_an_attribute(limits: tuple[str, ...] | None, *, hangs: bool) -> None:
    rounds = (gets_again(second, counted=in_attribute, read=500, limits=limits) for second in range(16))
    found = diagnosed([snapshot(*rows, at=float(second)) for second, rows in enumerate(rounds)])
    assert (found.verdict is Verdict.HUNG) == hangs


def of_last_log(seen: Stack, second: int) -> Stack:
    *called, own = seen.frames
    own = msgspec.structs.replace(own, locals_digest=second // 5, plain={"told": zlib.crc32(b"%d" % (second // 5))})
    return msgspec.structs.replace(seen, frames=(*called, own), contents=((0, 3, 77), (0, 4, 78)))


@pytest.mark.parametrize(
    ("polls_for", "hangs"),
    [(("results",), True), (("told",), False), (None, False)],
    ids=["for-something-else", "for-that", "does-more"],
)
def test_what_a_polling_loop_does_not_ask_for_is_no_progress(polls_for: tuple[str, ...] | None, *, hangs: bool) -> None:
    def noted(row: Row) -> Row:
        return msgspec.structs.replace(row, polls_for=polls_for) if isinstance(row, Stack) else row

    rounds = (gets_again(second, counted=of_last_log, read=500, limits=()) for second in range(16))
    found = diagnosed([snapshot(*map(noted, rows), at=float(second)) for second, rows in enumerate(rounds)])
    assert (found.verdict is Verdict.HUNG) == hangs


@pytest.mark.parametrize(("unseen", "since"), [(9, 0), (13, None)], ids=["between-others", "the-last"])
def test_a_reading_that_does_not_show_the_state_is_no_news(unseen: int, since: int | None) -> None:
    """It counts its attempts; in one round it was running, and its variables could not be read."""

    def blind(row: Row) -> Row:
        return msgspec.structs.replace(row, contents=None, read=None, counts=()) if isinstance(row, Stack) else row

    rounds = (gets_again(second, counted=in_attribute, read=500, limits=()) for second in range(14))
    seen = [map(blind, rows) if second == unseen else rows for second, rows in enumerate(rounds)]
    past = history(*(snapshot(*rows, at=float(second)) for second, rows in enumerate(seen)))
    assert past.snapshot
    samples = JobState(past, past.snapshot, Memo()).thread_history((ROOT, ROOT))
    assert samples
    assert got_nothing_since(samples.samples) == (None if since is None else START + since)
