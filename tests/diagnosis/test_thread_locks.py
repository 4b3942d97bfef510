"""Locks between the threads of a process, whose holders the interpreter names."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.diagnosis.stacks import lock_annotations
from mpmon.model import Blocked, JoinTarget, LockUse, Row, Stack
from tests.builders import (
    ROOT,
    START,
    blocked,
    diagnosed,
    kernel_object,
    lock,
    process,
    snapshot,
    stack,
    thread,
    wants,
    watched,
)

A, B = 0xA0, 0xB0
FIRST, SECOND = 4101, 4102
JOIN = ("lib/threading.py:1119 Thread.join", "job.py:30 <module>")


def sleeper(tid: int, name: str, line: str, word: int = 0, pid: int = ROOT) -> tuple[Row, ...]:
    """A thread asleep in the futex of a lock."""
    waits_on = f"futex:{pid}:{word or tid:#x}"
    return (
        thread(pid, tid), stack(name, line, pid=pid, tid=tid), blocked("futex", waits_on, pid=pid, tid=tid, ran_at=0.0),
        kernel_object(waits_on),
    )  # fmt: skip


def main_joins(tid: int) -> tuple[Row, ...]:
    """The main thread joins another one."""
    return (
        process(), thread(), stack("main", *JOIN), blocked("futex", "futex:4100:0x1", ran_at=0.0),
        kernel_object("futex:4100:0x1"), JoinTarget(pid=ROOT, tid=ROOT, kind="thread", by_tid=tid),
    )  # fmt: skip


def said_of(*parts: tuple[Row, ...]) -> Diagnosis:
    """What is said of these facts after a while in which nothing changed."""
    return watched(snapshot(*(row for part in parts for row in part)))


def abba() -> tuple[tuple[Row, ...], ...]:
    """Two threads that took two locks in opposite order."""
    return (
        main_joins(FIRST),
        sleeper(FIRST, "first", "job.py:7 first", B), sleeper(SECOND, "second", "job.py:12 second", A),
        (lock(A, "first", tid=FIRST), lock(B, "second", tid=SECOND)),
        (wants(B, "first", tid=FIRST), wants(A, "second", tid=SECOND)),
    )  # fmt: skip


def test_locks_in_opposite_order_are_proved() -> None:
    finding = said_of(*abba()).findings[0]
    assert (finding.cause, finding.certainty) == ("thread-deadlock", Certainty.PROVED)
    assert {suspect.tid for suspect in finding.suspects} == {FIRST, SECOND}
    assert "a lock held by thread second" in finding.summary
    assert finding.evidence[0] == "Lock 0xb0 of pid 4100 is held by thread second, in a with block of second()"


@pytest.mark.parametrize(("kind", "certainty"), [("Lock", Certainty.LIKELY), ("RLock", Certainty.PROVED)])
def test_a_thread_at_work_beside_may_release_a_lock_but_no_rlock(kind: str, certainty: Certainty) -> None:
    main, first, second, held, wanted = abba()
    held = tuple(msgspec.structs.replace(use, kind=kind) for use in held if isinstance(use, LockUse))
    third = (
        thread(ROOT, 4103), stack("third", "job.py:20 release_soon", tid=4103),
        blocked("clock_nanosleep", tid=4103, ran_at=0.0, wakes_at=90.0),
    )  # fmt: skip
    finding = said_of(main, first, second, held, wanted, third).findings[0]
    assert (finding.cause, finding.certainty) == ("thread-deadlock", certainty)


def test_those_that_wait_alike_are_told_together() -> None:
    """All of them by name are there for whoever reads the report by a program."""
    many = [sleeper(tid, f"worker {tid}", "job.py:7 work", B) for tid in range(FIRST, FIRST + 500)]
    finding = said_of(main_joins(FIRST), *many).findings[0]
    assert finding.cause == "thread-deadlock"
    assert len(finding.evidence) < 5
    told = "worker 4101, worker 4102, worker 4103 and 497 more wait for a lock at job.py:7 in work"
    assert told in finding.evidence
    assert {row.tid for row in finding.threads} == set(range(FIRST, FIRST + 500))
    assert len({row.thread for row in finding.threads}) == 500


def test_what_was_read_while_it_ran_proves_nothing() -> None:
    inexact = (lock(A, "first", tid=FIRST, exact=False), lock(B, "second", tid=SECOND, exact=False))
    main, first, second, _, wanted = abba()
    finding = said_of(main, first, second, inexact, wanted).findings[0]
    assert finding.cause == "thread-deadlock"
    assert finding.certainty is not Certainty.PROVED


def test_a_lock_taken_twice() -> None:
    main = sleeper(ROOT, "main", "job.py:9 log", A)
    finding = said_of((process(),), main, (lock(A, "work", tid=ROOT), wants(A, "log", tid=ROOT))).findings[0]
    assert (finding.cause, finding.certainty) == ("self-deadlock", Certainty.PROVED)
    assert [suspect.tid for suspect in finding.suspects] == [ROOT]


def test_the_holder_sleeps() -> None:
    holder = (
        thread(ROOT, SECOND), stack("writer", "job.py:20 write", tid=SECOND),
        blocked("clock_nanosleep", tid=SECOND, ran_at=0.0),
    )  # fmt: skip
    waiter = sleeper(ROOT, "main", "job.py:9 log", A)
    finding = said_of((process(),), waiter, holder, (lock(A, "write", tid=SECOND), wants(A, "log", tid=ROOT))).findings[
        0
    ]
    assert finding.cause == "lock-held"
    assert [(suspect.thread, str(suspect.frame)) for suspect in finding.suspects] == [("writer", "job.py:20 in write")]
    assert finding.summary.startswith("thread writer of main holds the lock that")


def test_a_holder_that_gets_on_is_no_hang() -> None:
    rounds = []
    for second in range(12):
        holder = (
            thread(ROOT, SECOND, slices=second, run_s=second), blocked("running", tid=SECOND, state="R"),
            stack("writer", f"job.py:{20 + second} write", tid=SECOND, at=second),
        )  # fmt: skip
        facts = (lock(A, "write", tid=SECOND), wants(A, "log", tid=ROOT))
        rows = (process(), thread(), *sleeper(ROOT, "main", "job.py:9 log", A)[1:], *holder, *facts)
        rounds.append(snapshot(*rows, at=second))
    assert diagnosed(rounds).verdict is not Verdict.HUNG


def test_a_cycle_that_comes_apart_by_itself_is_no_hang() -> None:
    main, first, second, *rest = abba()
    timed = tuple(
        msgspec.structs.replace(row, wakes_at=START + 60) if isinstance(row, Blocked) else row for row in second
    )
    assert said_of(main, first, timed, *rest).findings == ()


def test_one_that_a_handler_of_sigalrm_may_end_is_not_proved() -> None:
    main = sleeper(ROOT, "main", "job.py:9 log", A)
    facts = (lock(A, "work", tid=ROOT), wants(A, "log", tid=ROOT))
    finding = said_of((process(catches_alarm=True),), main, facts).findings[0]
    assert (finding.cause, finding.certainty) == ("self-deadlock", Certainty.LIKELY)


def test_of_two_holders_of_one_lock_neither_is_proved() -> None:
    both = (lock(A, "first", tid=FIRST), lock(A, "third", tid=ROOT), lock(B, "second", tid=SECOND))
    main, first, second, _, wanted = abba()
    assert said_of(main, first, second, both, wanted).findings[0].certainty is not Certainty.PROVED


def copied_locked(*facts: Row, child: int = 5000, kept_since: float = 0.0, **more: object) -> Diagnosis:
    """A child waits for a lock at the address of one of its parent, whose thread last ran at `kept_since`."""
    waiter = sleeper(child, "main", "job.py:40 child", A, pid=child)
    parent = (
        process(), thread(), stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:50 <module>"),
        blocked("wait4", f"process:{child}", ran_at=0.0), kernel_object(f"process:{child}"), thread(ROOT, SECOND),
        stack("keeper", "job.py:10 hold", tid=SECOND), blocked("clock_nanosleep", tid=SECOND, ran_at=kept_since),
    )  # fmt: skip
    return said_of(parent, (process(child, parent=ROOT, **more),), waiter, facts)


def test_a_lock_that_the_parent_took_after_the_fork_says_nothing_of_the_copy() -> None:
    late = copied_locked(lock(A, "hold", tid=SECOND), kept_since=START - 1).findings[0]
    assert (late.cause, late.certainty) == ("fork-lock", Certainty.LIKELY)


def test_an_owner_that_is_missing_may_have_been_a_thread_of_the_child() -> None:
    lost = wants(A, "child", tid=5000, pid=5000, kind="RLock", owner_missing=True)
    finding = copied_locked(lost).findings[0]
    assert (finding.cause, finding.certainty) == ("fork-lock", Certainty.LIKELY)


def test_a_program_of_its_own_has_no_copies() -> None:
    finding = copied_locked(lock(A, "hold", tid=SECOND), forked=False).findings[0]
    assert finding.cause != "fork-lock"


@pytest.mark.parametrize(
    "more",
    [(), (wants(A, "child", tid=5000, pid=5000, kind="RLock", owner_missing=True),)],
    ids=["the parent holds its own", "and its owner is no thread of the child"],
)
def test_a_lock_copied_locked(more: tuple[Row, ...]) -> None:
    child = sleeper(5000, "main", "job.py:40 child", A, pid=5000)
    parent = (
        process(), thread(), stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:50 <module>"),
        blocked("wait4", "process:5000", ran_at=0.0), kernel_object("process:5000"),
        thread(ROOT, SECOND), stack("keeper", "job.py:10 hold", tid=SECOND), blocked("clock_nanosleep", tid=SECOND, ran_at=0.0),
    )  # fmt: skip
    facts = (lock(A, "hold", tid=SECOND), *more)
    finding = said_of(parent, (process(5000, parent=ROOT),), child, facts).findings[0]
    assert (finding.cause, finding.certainty) == ("fork-lock", Certainty.PROVED)
    assert [suspect.pid for suspect in finding.suspects] == [5000]


def test_the_joined_thread_is_the_one_that_counts() -> None:
    idle = sleeper(FIRST, "idle", "job.py:3 idle")
    asleep = (
        thread(ROOT, SECOND), stack("worker", "job.py:20 work", tid=SECOND),
        blocked("clock_nanosleep", tid=SECOND, ran_at=0.0),
    )  # fmt: skip
    finding = said_of(main_joins(SECOND), idle, asleep).findings[0]
    assert [suspect.thread for suspect in finding.suspects] == ["worker"]


def test_a_semaphore_has_permits() -> None:
    frames = stack("worker", "lib/threading.py:479 Semaphore.acquire", "job.py:20 work")
    uses = [
        LockUse(
            pid=ROOT, tid=tid, object=f"permits:{ROOT}:0xc0", kind="Semaphore", holds=holds, function="work", depth=0
        )
        for tid, holds in ((ROOT, False), (SECOND, True))
    ]
    picture = snapshot(process(), thread(), frames, *uses)
    assert lock_annotations.by_frame(picture, frames) == {1: ("waiting for a permit of Semaphore 0xc0",)}


def test_frames_say_what_they_hold_and_wait_for() -> None:
    rows = [row for part in abba() for row in part]
    picture = snapshot(*rows)
    first = next(row for row in picture.stacks if isinstance(row, Stack) and row.tid == FIRST)
    assert lock_annotations.by_frame(picture, first) == {
        0: ("holding Lock 0xa0", "waiting to lock Lock 0xb0, held by thread second")
    }


def test_a_lock_without_a_frame_belongs_to_the_thread() -> None:
    picture = snapshot(process(), stack("main", "job.py:1 f"), lock(A, None, tid=ROOT, kind="RLock", depth=None))
    assert lock_annotations.by_thread(picture, picture.stacks[0]) == ("holding RLock 0xa0",)


def test_a_forked_child_whose_call_has_no_arguments() -> None:
    """A kernel may tell the call and not its registers, and a recording may say anything."""
    child = ROOT + 1
    found = watched(snapshot(
        process(), stack("main", "multiprocessing/popen_fork.py:27 poll", "job.py:3 main"), blocked("wait4"),
        process(child, parent=ROOT), stack("main", "threading.py:1 wait", "job.py:3 main", pid=child),
        blocked("futex", pid=child),
    ))  # fmt: skip
    assert found.verdict is Verdict.HUNG


RESULT = "lib/concurrent/futures/_base.py:451 Future.result"
TASK = ("lib/concurrent/futures/thread.py:58 _WorkItem.run", "lib/concurrent/futures/thread.py:83 _worker")


def in_queue_of(*tids: int) -> tuple[Row, ...]:
    """Each of these threads of an executor runs a task, and waits for the result of one that is in the executor's queue."""
    return tuple(
        row
        for tid in tids
        for row in (
            thread(ROOT, tid), stack(f"pool_{tid}", RESULT, "server.py:7 report", *TASK, tid=tid),
            blocked("futex", f"futex:{ROOT}:{tid:#x}", tid=tid, ran_at=0.0), kernel_object(f"futex:{ROOT}:{tid:#x}"),
            JoinTarget(pid=ROOT, tid=tid, kind="future", queued_for=tids),
        )
    )  # fmt: skip


def serving(second: int) -> tuple[Row, ...]:
    """The main thread runs an event loop and answers requests."""
    loop = ("lib/selectors.py:468 EpollSelector.select", "lib/asyncio/base_events.py:1884 BaseEventLoop._run_once")
    return (
        process(), thread(slices=9 * second, run_s=0.01 * second),
        stack("main", *loop, "server.py:20 <module>"), blocked("epoll_wait", ran_at=START + second, timeout_s=5.0),
    )  # fmt: skip


@pytest.mark.parametrize("tids", [(FIRST,), (FIRST, SECOND)])
def test_an_executor_all_of_whose_threads_wait_for_its_queue_hangs_in_a_server_that_goes_on(
    tids: tuple[int, ...],
) -> None:
    told = diagnosed([snapshot(*serving(second), *in_queue_of(*tids), at=float(second)) for second in range(14)])
    (finding,) = told.findings
    assert (told.verdict, finding.cause) == (Verdict.HUNG, "self-deadlock")
    assert {suspect.tid for suspect in finding.suspects} == set(tids)


def test_an_executor_one_of_whose_threads_works_will_come_to_its_queue() -> None:
    def rows(second: int) -> tuple[Row, ...]:
        stuck = tuple(
            msgspec.structs.replace(row, queued_for=(FIRST, SECOND)) if isinstance(row, JoinTarget) else row
            for row in in_queue_of(FIRST)
        )
        works = stack("pool_2", f"server.py:{30 + second} resize", *TASK, tid=SECOND)
        return *serving(second), *stuck, thread(ROOT, SECOND, slices=9 * second, run_s=second), works

    told = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert told.verdict is Verdict.HEALTHY
