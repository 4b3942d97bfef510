"""Proof that nobody else could act: other threads, processes outside of the job, those who give back what others took."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Verdict
from mpmon.model import Handle, QueueState, Row, SemaphoreUse
from tests.builders import (
    ROOT,
    START,
    blocked,
    diagnosed,
    holds,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
    watched,
)

WRITER, READER, OUTSIDER = 4121, 4101, 900
PIPE, LOCK, FILE = "pipe:7", "semaphore:00:1:0", "file:00:5:9"


def joined_writer(*more: Row, outsiders: tuple[Handle, ...] = ()) -> Diagnosis:
    """The main thread waits for the end of a child that cannot write: the pipe is full, and its process could read it."""
    rows = (
        process(), thread(), stack("main", "lib/subprocess.py:1960 Popen.wait", "job.py:9 <module>"),
        blocked("wait4", f"process:{WRITER}", ran_at=0.0), kernel_object(f"process:{WRITER}"),
        process(WRITER, parent=ROOT), thread(WRITER), stack("main", "job.py:30 work", pid=WRITER),
        blocked("write", PIPE, pid=WRITER, writes=True, ran_at=0.0), kernel_object(PIPE, fill=65536, capacity=65536),
        holds(ROOT, PIPE, writes=False), holds(WRITER, PIPE, reads=False),
    )  # fmt: skip
    return watched(msgspec.structs.replace(snapshot(*rows, *more), outsiders=outsiders))


def reader(wakes_at: float) -> tuple[Row, ...]:
    """Another thread of the parent, asleep between two reads."""
    return (
        thread(ROOT, READER), stack("reader", "job.py:20 consume", tid=READER),
        blocked("clock_nanosleep", tid=READER, ran_at=0.0, wakes_at=wakes_at),
    )  # fmt: skip


def test_a_pipe_that_only_the_waiting_thread_could_read() -> None:
    finding = joined_writer().findings[0]
    assert (finding.cause, finding.certainty) == ("pipe-full", Certainty.PROVED)


def test_another_thread_of_the_reader_may_read_it() -> None:
    assert joined_writer(*reader(wakes_at=START + 60)).verdict is not Verdict.HUNG


def test_another_thread_that_never_will_is_the_one_to_look_at() -> None:
    finding = joined_writer(*reader(wakes_at=START + 9000)).findings[0]
    assert [suspect.thread for suspect in finding.suspects] == ["reader"]
    assert finding.certainty is not Certainty.PROVED


def test_somebody_outside_of_the_job_may_read_it() -> None:
    stranger = Handle(pid=OUTSIDER, object=PIPE, fd=3, writes=False)
    finding = joined_writer(outsiders=(stranger,)).findings[0]
    assert finding.cause != "pipe-full"
    assert f"pid {OUTSIDER}" in finding.chain[-1].does


def reads_input(*more: Row, outsiders: tuple[Handle, ...] = ()) -> Finding:
    """The main thread reads its standard input, and a child of it was killed."""
    rows = (
        process(), thread(), stack("main", "job.py:9 main"), blocked("read", PIPE, ran_at=0.0),
        kernel_object(PIPE, fill=0, capacity=65536), holds(ROOT, PIPE, writes=False),
        process(WRITER, parent=ROOT, state="Z", exit_code=9),
    )  # fmt: skip
    return watched(msgspec.structs.replace(snapshot(*rows, *more), outsiders=outsiders)).findings[0]


def test_a_dead_child_could_not_bring_what_only_somebody_outside_can() -> None:
    stranger = Handle(pid=OUTSIDER, object=PIPE, fd=1, reads=False)

    assert [suspect.pid for suspect in reads_input().suspects] == [WRITER]
    assert f"pid {OUTSIDER}" in reads_input(outsiders=(stranger,)).chain[-1].does


def asks_parent(*more: Row) -> Finding:
    """A child reads its standard input, a pipe that only its parent could write to, which waits for its end."""
    rows = (
        process(), thread(), stack("main", "lib/subprocess.py:1960 Popen.wait", "job.py:9 <module>"),
        blocked("wait4", f"process:{WRITER}", ran_at=0.0), kernel_object(f"process:{WRITER}"),
        process(WRITER, parent=ROOT), thread(WRITER), stack("main", "job.py:30 confirm", pid=WRITER),
        blocked("read", PIPE, pid=WRITER, ran_at=0.0, args=(0,)), kernel_object(PIPE, fill=0, capacity=65536),
        holds(ROOT, PIPE, reads=False), holds(WRITER, PIPE, writes=False),
    )  # fmt: skip
    return watched(snapshot(*rows, *more)).findings[0]


def test_a_sibling_that_has_done_its_work_would_not_have_answered() -> None:
    done = process(OUTSIDER, parent=ROOT, state="Z", exit_code=0)

    for finding in (asks_parent(), asks_parent(done)):
        assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("debugger", [WRITER])


def waits_for_lock(*more: Row, outsiders: tuple[Handle, ...] = ()) -> Finding:
    """The main thread waits for a multiprocessing lock that has no permit left."""
    rows = (
        process(), thread(), stack("main", "multiprocessing/synchronize.py:95 SemLock.__enter__", "job.py:9 <module>"),
        blocked("futex", LOCK, ran_at=0.0), kernel_object(LOCK, value=0), holds(ROOT, LOCK),
    )  # fmt: skip
    return watched(msgspec.structs.replace(snapshot(*rows, *more), outsiders=outsiders)).findings[0]


def counted(pid: int, count: int) -> SemaphoreUse:
    return SemaphoreUse(pid=pid, object=LOCK, count=count, max_value=1)


def sleeping(pid: int) -> tuple[Row, ...]:
    """Another process that has the lock."""
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", "job.py:30 work", pid=pid),
        blocked("clock_nanosleep", pid=pid, ran_at=0.0), holds(pid, LOCK),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "certainty"),
    [((), Certainty.LIKELY), ((process(WRITER, parent=ROOT, state="Z", exit_code=9),), Certainty.PROVED)],
    ids=["somebody took it as a sign, perhaps", "somebody was killed"],
)
def test_a_lock_that_nobody_alive_has(ended: tuple[Row, ...], certainty: Certainty) -> None:
    finding = waits_for_lock(counted(ROOT, 0), *ended)
    assert (finding.cause, finding.certainty) == ("lock-orphaned", certainty)


@pytest.mark.parametrize("counts", [(0, 0), (4, 0)], ids=["it began without permits", "all were taken here"])
def test_whoever_is_at_work_may_release_a_semaphore(counts: tuple[int, int]) -> None:
    """That it never did so far says nothing."""
    uses = [
        msgspec.structs.replace(counted(pid, count), max_value=1 << 31)
        for pid, count in zip((ROOT, WRITER), counts, strict=True)
    ]

    rounds = []
    for at in range(13):
        rows = (
            process(), thread(), blocked("futex", LOCK, ran_at=0.0), kernel_object(LOCK, value=0), holds(ROOT, LOCK),
            stack("main", "multiprocessing/synchronize.py:95 SemLock.__enter__", "job.py:9 <module>"), *uses,
            process(WRITER, parent=ROOT), thread(WRITER, slices=at + 1, run_s=float(at)), holds(WRITER, LOCK),
            stack("main", "job.py:30 work", pid=WRITER, at=float(at)), blocked("running", pid=WRITER, state="R"),
        )  # fmt: skip
        rounds.append(snapshot(*rows, at=float(at)))
    assert diagnosed(rounds).verdict is Verdict.SLOW


def test_somebody_outside_of_the_job_may_have_it() -> None:
    finding = waits_for_lock(counted(ROOT, 0), outsiders=(Handle(pid=OUTSIDER, object=LOCK),))
    assert finding.cause != "lock-orphaned"
    assert finding.certainty is not Certainty.PROVED


def test_a_lock_that_one_takes_and_another_gives_back_is_a_signal() -> None:
    counts = (counted(ROOT, 0), counted(WRITER, 1), counted(READER, -1))
    assert waits_for_lock(*counts, *sleeping(WRITER), *sleeping(READER)).certainty is not Certainty.PROVED


def test_so_may_be_one_that_a_process_takes_twice() -> None:
    assert waits_for_lock(counted(ROOT, 1)).cause == "self-deadlock"
    assert waits_for_lock(counted(ROOT, 1)).certainty is Certainty.PROVED
    shared = waits_for_lock(counted(ROOT, 1), counted(WRITER, 0), *sleeping(WRITER))
    assert shared.certainty is not Certainty.PROVED


def waits_for_file(*more: Row) -> Finding:
    """The main thread joins a child that waits for the main thread's lock on a file."""
    rows = (
        process(), thread(), stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:9 <module>"),
        blocked("wait4", f"process:{WRITER}", ran_at=0.0), kernel_object(f"process:{WRITER}"),
        process(WRITER, parent=ROOT), thread(WRITER), stack("main", "job.py:30 work", pid=WRITER),
        blocked("flock", "file lock:9", pid=WRITER, ran_at=0.0),
        msgspec.structs.replace(kernel_object("file lock:9", holders=(ROOT,)), kind="file lock"),
    )  # fmt: skip
    return watched(snapshot(*rows, *more)).findings[0]


def test_a_file_that_two_processes_lock() -> None:
    assert (waits_for_file().cause, waits_for_file().certainty) == ("lock-cycle", Certainty.PROVED)


def test_a_thread_of_the_holder_may_unlock_it() -> None:
    helper = (
        thread(ROOT, READER), stack("timer", "lib/threading.py:600 wait", tid=READER),
        blocked("futex", f"futex:{ROOT}:0x5", tid=READER, ran_at=0.0, wakes_at=START + 900), kernel_object(f"futex:{ROOT}:0x5"),
    )  # fmt: skip
    assert waits_for_file(*helper).certainty is not Certainty.PROVED


def locks_again(*more: Row, syscall: str = "flock") -> Diagnosis:
    """The main thread joins a child that has a lock on a file and waits for it with another open file."""
    rows = (
        process(), thread(), stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:9 <module>"),
        blocked("wait4", f"process:{WRITER}", ran_at=0.0), kernel_object(f"process:{WRITER}"),
        process(WRITER, parent=ROOT), thread(WRITER), stack("main", "job.py:30 work", pid=WRITER),
        blocked(syscall, "file lock:9", pid=WRITER, ran_at=0.0), holds(WRITER, "file lock:9"),
        msgspec.structs.replace(kernel_object("file lock:9", holders=(WRITER,), path="/data/lock"), kind="file lock"),
    )  # fmt: skip
    return watched(snapshot(*rows, *more))


def other_thread(wakes_at: float) -> tuple[Row, ...]:
    return (
        thread(WRITER, READER), stack("closes", "job.py:40 close", pid=WRITER, tid=READER),
        blocked("clock_nanosleep", pid=WRITER, tid=READER, ran_at=0.0, wakes_at=wakes_at),
    )  # fmt: skip


def heir(*frames: str, call: str = "clock_nanosleep", on: str = "", wakes_at: float | None = None) -> tuple[Row, ...]:
    """Another child that has the file open."""
    return (
        process(READER, parent=ROOT), thread(READER), stack("main", *frames, pid=READER),
        blocked(call, *((on,) if on else ()), pid=READER, ran_at=0.0, wakes_at=wakes_at), holds(READER, "file lock:9"),
    )  # fmt: skip


def test_a_file_that_a_process_locks_twice() -> None:
    finding = locks_again().findings[0]
    assert (finding.cause, finding.certainty) == ("self-deadlock", Certainty.PROVED)
    assert [suspect.pid for suspect in finding.suspects] == [WRITER]
    assert "/data/lock" in finding.summary


def test_a_process_does_not_wait_for_its_own_record_locks() -> None:
    assert locks_again(syscall="fcntl").verdict is not Verdict.HUNG


def test_another_thread_may_close_the_file() -> None:
    assert locks_again(*other_thread(wakes_at=START + 60)).verdict is not Verdict.HUNG
    finding = locks_again(*other_thread(wakes_at=START + 9000)).findings[0]
    assert [suspect.thread for suspect in finding.suspects] == ["closes"]
    assert finding.certainty is not Certainty.PROVED


def test_whoever_may_have_got_the_file_by_a_fork_may_unlock_it() -> None:
    assert locks_again(*heir("job.py:50 pause", wakes_at=START + 60)).verdict is not Verdict.HUNG


def test_whoever_waits_for_the_file_too_will_not() -> None:
    finding = locks_again(*heir("job.py:30 work", call="flock", on="file lock:9")).findings[0]
    assert (finding.cause, finding.certainty) == ("self-deadlock", Certainty.PROVED)
    assert [suspect.pid for suspect in finding.suspects] == [WRITER]


# A queue that a process has only inherited


def waits_for_item(second: int, *, tests: tuple[str, ...], putters: tuple[int, ...]) -> tuple[Row, ...]:
    """Main waits for an item of a worker that sleeps for hours; a third process counts something each second."""
    reads = (
        "multiprocessing/connection.py:395 Connection._recv",
        "multiprocessing/queues.py:103 Queue.get",
        "job.py:9 main",
    )
    counts = stack("main", "job.py:50 report", pid=OUTSIDER, at=second)
    return (
        process(), thread(), stack("main", *reads), blocked("read", PIPE, ran_at=0.0), kernel_object(PIPE, fill=0),
        holds(ROOT, PIPE), holds(WRITER, PIPE), holds(OUTSIDER, PIPE),
        process(WRITER, parent=ROOT), thread(WRITER), stack("main", "job.py:30 work", pid=WRITER),
        blocked("clock_nanosleep", pid=WRITER, ran_at=0.0, wakes_at=START + 9000),
        process(OUTSIDER, parent=ROOT), thread(OUTSIDER, slices=9 * second),
        msgspec.structs.replace(counts, tests=tests, contents=((0, 1, second),)),
        blocked("clock_nanosleep", pid=OUTSIDER, ran_at=START + second - 0.5, wakes_at=START + second + 0.5),
        QueueState(object=PIPE, pid=ROOT, putters=putters, getters=(ROOT,)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tests", "putters", "hangs"),
    [((), (WRITER,), True), ((), (WRITER, OUTSIDER), False), ((), (), False), (("?",), (WRITER,), False)],
    ids=["never-puts", "has-put", "nobody-is-known-to-put", "may-leave-its-loop"],
)
def test_one_that_reports_beside_a_queue_brings_no_item(
    tests: tuple[str, ...], putters: tuple[int, ...], *, hangs: bool
) -> None:
    rounds = (waits_for_item(second, tests=tests, putters=putters) for second in range(16))
    found = diagnosed([snapshot(*rows, at=float(second)) for second, rows in enumerate(rounds)])
    assert (found.verdict is Verdict.HUNG) == hangs
    assert not hangs or [suspect.pid for suspect in found.findings[0].suspects] == [WRITER]


# An event between processes

EVENT, CHILD = "semaphore:00:2:0", 4130


def awaits_event(*more: Row) -> Diagnosis:
    """The main thread waits for an event between processes."""
    waits = ("multiprocessing/synchronize.py:261 Condition.wait", "multiprocessing/synchronize.py:349 Event.wait")
    main = (
        process(), thread(), stack("main", *waits, "job.py:44 <module>"), blocked("futex", EVENT, ran_at=0.0),
        kernel_object(EVENT, value=0), holds(ROOT, EVENT),
    )  # fmt: skip
    return watched(snapshot(*main, *more))


def spawned(*frames: str) -> tuple[Row, ...]:
    """A child of spawn that stands still in these calls, and does not have the event yet."""
    outermost = (
        "multiprocessing/spawn.py:132 _main",
        "multiprocessing/spawn.py:122 spawn_main",
        "lib/<string>:1 <module>",
    )
    return (
        process(CHILD, parent=ROOT), thread(CHILD), stack("main", *frames, *outermost, pid=CHILD),
        blocked("clock_nanosleep", pid=CHILD, ran_at=START, wakes_at=START + 60),
    )  # fmt: skip


def test_a_child_that_still_starts_may_set_an_event_that_it_does_not_have_yet() -> None:
    assert awaits_event(*spawned("model.py:3 <module>")).verdict is not Verdict.HUNG


def test_one_that_has_begun_without_it_will_not() -> None:
    begun = spawned("job.py:20 work", "multiprocessing/process.py:314 BaseProcess._bootstrap")
    assert awaits_event(*begun).findings[0].cause == "item-lost"


def test_another_thread_of_a_process_that_has_the_event_may_set_it() -> None:
    other = (
        process(CHILD, parent=ROOT), thread(CHILD), stack("main", "job.py:60 watch", pid=CHILD), holds(CHILD, EVENT),
        blocked("read", "pipe:9", pid=CHILD, ran_at=0.0), kernel_object("pipe:9"),
        holds(CHILD, "pipe:9", writes=False), holds(ROOT, "pipe:9", reads=False),
    )  # fmt: skip
    timer = (
        thread(CHILD, CHILD + 1), stack("Thread-1", "job.py:70 tick", pid=CHILD, tid=CHILD + 1),
        blocked("clock_nanosleep", pid=CHILD, tid=CHILD + 1, ran_at=START, wakes_at=START + 60),
    )  # fmt: skip
    assert awaits_event(*other).verdict is Verdict.HUNG
    assert awaits_event(*other, *timer).verdict is not Verdict.HUNG
