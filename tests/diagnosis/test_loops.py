"""Event loops whose tasks wait for each other, beside sleepers that could help, or not."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.diagnosis.loops import lines
from mpmon.model import SENDS_TO_OTHERS, Frame, Row, Task, Unknown
from tests.builders import (
    ROOT,
    START,
    after,
    blocked,
    diagnosed,
    holds,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
)

LOOP = ("/usr/lib/python3.12/asyncio/base_events.py:1910 _run_once", "job.py:40 <module>")
QUEUE, LOCK, OTHER_LOCK = "asyncio:4100:0x10", "asyncio:4100:0x20", "asyncio:4100:0x30"


def task(name: str, waits: str | None, on: str | None = None, *, line: int = 7, **more: object) -> Task:
    """One whose innermost call is asyncio's and the next one the user's."""
    frames = (
        Frame(function="wait", file="/usr/lib/python3.12/asyncio/locks.py", line=212),
        Frame(function=name, file="/home/user/job/job.py", line=line),
    )
    fields = {"pid": ROOT, "tid": ROOT, "object": named(name), "callbacks": 0, "frames": frames, **more}
    return Task(name=name, waits=waits, waits_on=on, **fields)  # pyright: ignore[reportArgumentType]


def named(name: str) -> str:
    return f"task:{ROOT}:{name}"


BEATS = task("beats", "sleep", reaches=())
JOINS = task("joins", "queue join", QUEUE, line=31)
ABBA = (
    task("main", "tasks", tasks=(named("a"), named("b"))),
    task("a", "lock", LOCK, holds=(OTHER_LOCK,), line=21),
    task("b", "lock", OTHER_LOCK, holds=(LOCK,), line=22),
)


def said(*rows: Row, sockets: int = 1, **traits: bool) -> Diagnosis:
    """What is said of a loop that has had these tasks for ten seconds, and wakes up each second."""
    waits = blocked("epoll_wait", *(f"socket:{number}" for number in range(sockets)), ran_at=START, timeout_s=0.9)
    first = snapshot(process(**traits), stack("main", *LOOP), waits, *rows)  # pyright: ignore[reportArgumentType]
    return diagnosed([after(first, float(second), ran=[ROOT]) for second in range(11)])


STUCK = {
    "a queue whose consumers have returned": (JOINS,),
    "locks in opposite order": ABBA,
    "a lock that the one who wants it has": (task("again", "lock", LOCK, holds=(LOCK,)),),
    "a consumer that others wait for and nobody feeds": (
        task("main", "tasks", tasks=(named("gets"),)), task("gets", "queue get", QUEUE),
    ),
    "an event in a task that others wait for": (
        task("main", "tasks", tasks=(named("waits"),)), task("waits", "event", "asyncio:4100:0x40"),
    ),
    "tasks that wait for each other": (task("a", "tasks", tasks=(named("b"),)), task("b", "tasks", tasks=(named("a"),))),
    "one of several that all have to end": (task("main", "tasks", tasks=(named("joins"), named("beats"))), JOINS),
}  # fmt: skip


@pytest.mark.parametrize("rows", STUCK.values(), ids=STUCK)
def test_tasks_beside_a_heartbeat_that_nobody_can_end(rows: tuple[Task, ...]) -> None:
    found = said(*rows, BEATS)
    assert found.verdict is Verdict.HUNG
    finding = found.findings[0]
    assert (finding.cause, finding.certainty) == ("self-deadlock", Certainty.LIKELY)


def test_the_place_is_the_line_of_the_task() -> None:
    (suspect,) = said(JOINS, BEATS).findings[0].suspects
    assert suspect.frame is not None
    assert (suspect.frame.function, suspect.frame.line) == ("joins", 31)


CALM = {
    "a sleeper that could put": (task("gets", "queue get", QUEUE), task("puts", "sleep", reaches=(QUEUE,))),
    "a sleeper that could cancel": (JOINS, task("stops", "sleep", reaches=(named("joins"),))),
    "a sleeper of which nothing is known": (JOINS, task("any", "sleep", reaches=None)),
    "a sleeper that has the lock": (task("wants", "lock", LOCK), task("has", "sleep", reaches=(), holds=(LOCK,))),
    "a sleeper whose end is waited for": (task("main", "tasks", tasks=(named("beats"),)),),
    "the first of several, of which one sleeps": (
        task("main", "any task", tasks=(named("joins"), named("beats"))), JOINS,
    ),
    "a task of another loop": (task("main", "tasks", tasks=(named("elsewhere"),)),),
    "a connection": (JOINS, task("serves", "stream")),
    "a future": (JOINS, task("thread", "future", "asyncio:4100:0x50")),
    "what cannot be read": (JOINS, task("any", None)),
    "a time limit": (task("joins", "queue join", QUEUE, timed=True),),
    "a timer that calls something": (task("joins", "queue join", QUEUE, callbacks=1),),
    "timers that cannot be read": (task("joins", "queue join", QUEUE, callbacks=None),),
    "a service that runs until an event": (task("main", "event", "asyncio:4100:0x40"),),
    "the end of what is no child": (task("main", "process", child=77),),
    "some tasks that could not be read": (JOINS, Unknown(table="tasks", pid=ROOT, reason="too many")),
}  # fmt: skip


@pytest.mark.parametrize("rows", CALM.values(), ids=CALM)
def test_tasks_that_something_may_end(rows: tuple[Row, ...]) -> None:
    assert said(*rows, BEATS).verdict is not Verdict.HUNG


def test_a_loop_that_sleeps_although_a_task_is_ready_was_not_woken() -> None:
    diagnosis = said(task("next", "ready"), task("reads", "stream"), sockets=2, catches_term=True)
    assert diagnosis.verdict is Verdict.HUNG
    assert diagnosis.findings[0].cause == "item-lost"
    assert "nothing woke the loop when next became ready" in diagnosis.findings[0].summary


@pytest.mark.parametrize("far", [None, (named("b"),)], ids=["of which nothing is known", "that could cancel one"])
def test_a_watchdog_may_cancel_tasks_that_wait_for_each_other(far: tuple[str, ...] | None) -> None:
    assert said(*ABBA, task("watchdog", "sleep", reaches=far)).verdict is not Verdict.HUNG


@pytest.mark.parametrize(
    ("signal", "timer", "hangs"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_a_loop_that_a_signal_or_a_timer_of_the_kernel_may_wake(*, signal: bool, timer: bool, hangs: bool) -> None:
    waits = blocked("epoll_wait", "socket:0", *(["timerfd:7"] if timer else []), ran_at=START)
    rows = (
        process(catches_call=signal), stack("main", *LOOP), waits, kernel_object("socket:0", peer="socket:1"),
        holds(ROOT, "socket:0"), holds(ROOT, "socket:1"), kernel_object("timerfd:7"), holds(ROOT, "timerfd:7"),
    )  # fmt: skip
    found = diagnosed([snapshot(*rows, at=float(second)) for second in range(14)])
    assert (found.verdict is Verdict.HUNG) is hangs


def test_who_is_connected_or_takes_signals_may_be_told_to_go_on() -> None:
    assert said(JOINS, BEATS, sockets=2).verdict is not Verdict.HUNG
    assert said(JOINS, BEATS, catches_term=True).verdict is not Verdict.HUNG
    assert said(*ABBA, BEATS, sockets=2, catches_term=True).verdict is Verdict.HUNG


def test_locks_taken_crosswise_in_a_loop_that_serves_others() -> None:
    finding = said(*ABBA, BEATS, task("serves", "stream"), task("any", None), sockets=2).findings[0]
    assert finding.cause == "self-deadlock"
    assert finding.summary.endswith(
        "tasks of its event loop wait for each other: a awaits a lock (held by b) at job.py:21 in a() and "
        "b awaits a lock (held by a) at job.py:22 in b()"
    )


def test_a_lock_that_the_task_which_took_it_has_left_locked_in_a_loop_that_serves_others() -> None:
    finding = said(task("b", "lock", LOCK), BEATS, task("main", "requests"), sockets=2).findings[0]
    assert (finding.cause, finding.certainty) == ("self-deadlock", Certainty.LIKELY)
    assert "b awaits a lock of asyncio at job.py:7 in b() that no task has any more" in finding.summary


@pytest.mark.parametrize(
    "other",
    [
        task("has", "stream"), task("has", "future", "asyncio:4100:0x50"), task("has", "thread"),
        task("has", "event", "asyncio:4100:0x40"), task("has", "sleep", reaches=(LOCK,)), task("has", None),
        task("has", "tasks", tasks=("asyncio:4100:0x60",), timed=True),
    ],
    ids=lambda row: row.waits,
)  # fmt: skip
def test_a_lock_that_another_task_may_have_taken_without_a_block(other: Task) -> None:
    assert said(task("b", "lock", LOCK), BEATS, other, sockets=2).verdict is not Verdict.HUNG


@pytest.mark.parametrize(
    "rows",
    [
        (task("a", "lock", LOCK), task("b", "stream", holds=(LOCK,))),
        (ABBA[0], ABBA[1], task("b", "lock", OTHER_LOCK, holds=(LOCK,), timed=True)),
        (*ABBA, task("cancels", "tasks", tasks=(named("a"),), timed=True)),
        (*ABBA, task("cancels", "tasks", tasks=(named("main"),), timed=True)),
    ],
    ids=["the holder is served", "a limit of its own", "the limit of one that awaits it", "a limit further out"],
)
def test_a_circle_that_may_open_in_a_loop_that_serves_others(rows: tuple[Row, ...]) -> None:
    assert said(*rows, BEATS, task("serves", "stream"), sockets=2).verdict is not Verdict.HUNG


@pytest.mark.parametrize(("beside", "hangs"), [((), True), ((thread(ROOT, ROOT + 9, name="ZMQbg/IO/0"),), False)])
def test_what_only_its_own_process_has_wakes_a_loop_by_its_threads_alone(
    beside: tuple[Row, ...], *, hangs: bool
) -> None:
    """Such as uvloop, which watches an eventfd and a pipe of its own; a socket of ZeroMQ is an eventfd, too."""
    waits = blocked("epoll_wait", "socket:0", "eventfd:5", ran_at=START, args=(3, 0, 8, 0xFFFFFFFF))
    rows = (
        process(), thread(), stack("main", *LOOP), waits, kernel_object("socket:0", peer="socket:1"),
        holds(ROOT, "socket:0"), holds(ROOT, "socket:1"), kernel_object("eventfd:5", fill=0), holds(ROOT, "eventfd:5"),
        msgspec.structs.replace(JOINS, callbacks=None), *beside,
    )  # fmt: skip
    found = diagnosed([snapshot(*rows, at=float(second)) for second in range(14)])
    told = [finding.cause for finding in found.findings if "awaits queue.join()" in finding.summary]
    assert bool(told) is hangs


CHILD = 4150


@pytest.mark.parametrize(("call", "verdict"), [("write", Verdict.HUNG), ("nanosleep", Verdict.HEALTHY)])
def test_a_child_whose_end_a_task_awaits(call: str, verdict: Verdict) -> None:
    pipe = "pipe:7"
    found = said(
        task("waits", "process", child=CHILD, line=18), BEATS, process(CHILD, parent=ROOT, name="convert"),
        blocked(call, *([pipe] if call == "write" else []), pid=CHILD, ran_at=START, writes=call == "write"),
        kernel_object(pipe, fill=65536, capacity=65536), holds(CHILD, pipe, reads=False), holds(ROOT, pipe, writes=False),
    )  # fmt: skip
    assert found.verdict is verdict
    assert [(row.cause, str(row.suspects[0].frame)) for row in found.findings] == (
        [("pipe-full", "job.py:18 in waits")] if verdict is Verdict.HUNG else []
    )


def test_a_thread_beside_the_loop_may_put() -> None:
    works = stack("worker", "job.py:50 work", pid=ROOT, tid=ROOT + 1)
    assert said(JOINS, BEATS, works).verdict is not Verdict.HUNG


def test_tasks_are_told_those_that_sleep_last() -> None:
    assert lines((BEATS, *ABBA), ROOT, 3) == [
        "main awaits other tasks: a and b at job.py:7 in main()",
        "a awaits a lock (held by b) at job.py:21 in a()",
        "b awaits a lock (held by a) at job.py:22 in b()",
        "… 1 more",
    ]
    assert lines((BEATS,), ROOT + 1, 3) == []


READS = task("reads", "stream", "asyncio:4100:0x50", line=20)
FILTER = 4121
TO, BACK = "socket:7", "socket:8"


def driven(*rows: Row, stranger: bool = False) -> Diagnosis:
    """What is said of a loop that reads what a filter writes, which reads what the loop's process has to write."""
    waits = blocked("epoll_wait", "socket:0", TO, ran_at=START, timeout_s=0.9)
    other = holds(4199, BACK) if stranger else holds(FILTER, BACK)
    first = snapshot(
        process(), stack("main", *LOOP), waits, kernel_object("socket:0", peer="socket:1"), holds(ROOT, "socket:1"),
        kernel_object(TO, peer=BACK, fill=0), holds(ROOT, TO), other,
        process(FILTER, parent=ROOT, cmdline=("python", "filt.py")), stack("main", "filt.py:13 main", pid=FILTER),
        blocked("read", BACK, pid=FILTER, ran_at=START), kernel_object(BACK, peer=TO, fill=0), *rows,
    )  # fmt: skip
    return diagnosed([after(first, float(second), ran=[ROOT]) for second in range(11)])


def test_a_task_that_reads_from_one_who_reads_from_its_loop() -> None:
    (finding, *_) = driven(READS, BEATS).findings
    assert (finding.cause, {suspect.pid for suspect in finding.suspects}) == ("lock-cycle", {ROOT, FILTER})


def test_a_server_whose_handler_waits_for_what_only_the_server_could_do() -> None:
    """Its clients wait for it, and it needs none of them in particular."""
    rows = (
        process(), stack("main", *LOOP), blocked("epoll_wait", "socket:1", "socket:3", ran_at=START),
        kernel_object("socket:1", peer="socket:2"), holds(ROOT, "socket:1"), holds(ROOT, "socket:2"),
        kernel_object("socket:3", peer="socket:4"), holds(ROOT, "socket:3"), holds(FILTER, "socket:4"),
        process(FILTER, parent=ROOT, cmdline=("python", "filt.py")), stack("main", "filt.py:13 main", pid=FILTER),
        blocked("recvfrom", "socket:4", pid=FILTER, ran_at=START), kernel_object("socket:4", peer="socket:3"),
        task("main", "requests"), task("handles", "condition", "asyncio:4100:0x70"),
    )  # fmt: skip
    (finding, *_) = diagnosed([snapshot(*rows, at=float(second)) for second in range(14)]).findings
    assert (finding.cause, {suspect.pid for suspect in finding.suspects}) == ("main-stuck", {ROOT})
    assert finding.summary.endswith("while subprocess filt.py waits for main: no other process could unblock them")


@pytest.mark.parametrize(
    "rows",
    [(READS, task("sends", "sleep", reaches=(SENDS_TO_OTHERS,))), (READS, task("any", "sleep", reaches=None)),
     (READS, task("asks", "future", "asyncio:4100:0x60"), BEATS)],
    ids=["a sleeper that could send", "a sleeper of which nothing is known", "a future that anybody may set"],
)  # fmt: skip
def test_a_loop_that_may_yet_be_told_something(rows: tuple[Task, ...]) -> None:
    assert driven(*rows).verdict is not Verdict.HUNG


def test_what_comes_from_a_stranger_nobody_here_can_tell() -> None:
    assert driven(READS, BEATS, stranger=True).verdict is not Verdict.HUNG
