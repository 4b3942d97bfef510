"""Whom a wait is for, where more than one reading is possible: consumers in line, rings of queues, locks of files, the
peer of a send, the reader that keeps the GIL.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mpmon.diagnosis.edges import node
from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Verdict
from mpmon.diagnosis.graph import Basis, External, NoReleaser
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import NOT_PYTHON, Handle, KnownChild, Row, SemaphoreUse, Unknown
from tests.builders import (
    ROOT,
    START,
    blocked,
    diagnosed,
    frame,
    history,
    holds,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
    watched,
)

FIRST, SECOND, THIRD = 4121, 4122, 4123
PIPE, OTHER_PIPE, LOCK, BOUND = "pipe:7", "pipe:8", "semaphore:00:1:0", "semaphore:00:2:0"
READS = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 Queue.get")
IN_LINE = ("multiprocessing/synchronize.py:95 SemLock.__enter__", "multiprocessing/queues.py:102 Queue.get")
PUTS = ("multiprocessing/queues.py:89 Queue.put",)
C10D = "torch/distributed/distributed_c10d.py"

Rows = tuple[Row, ...]


def of(*parts: Rows) -> Diagnosis:
    return watched(snapshot(*{repr(row): row for part in parts for row in part}.values()))


def suspects(finding: Finding) -> list[int]:
    return sorted(suspect.pid for suspect in finding.suspects)


def member(pid: int, *frames: str, on: str, syscall: str = "read", more: Rows = ()) -> Rows:
    return (
        process(pid, parent=1 if pid == ROOT else ROOT, cmdline=("python", f"{pid}.py")), thread(pid),
        stack("main", *frames, f"job.py:{pid % 100} work", pid=pid), blocked(syscall, on, pid=pid, ran_at=0.0), *more,
    )  # fmt: skip


def pipe(name: str, *, readers: tuple[int, ...], writers: tuple[int, ...], fill: int = 0) -> Rows:
    ends = {pid: (pid in readers, pid in writers) for pid in (*readers, *writers)}
    held = (holds(pid, name, reads=reads, writes=writes) for pid, (reads, writes) in ends.items())
    return (kernel_object(name, fill=fill, capacity=65536), *held)


def lock_of(holder: int, *users: int) -> Rows:
    uses = (SemaphoreUse(pid=pid, object=LOCK, count=int(pid == holder), max_value=1) for pid in users)
    return (kernel_object(LOCK, value=0), *(holds(pid, LOCK) for pid in users), *uses)


def joins(*pids: int) -> Rows:
    return (
        *member(ROOT, "multiprocessing/process.py:149 BaseProcess.join", on=f"process:{pids[0]}", syscall="wait4"),
        kernel_object(f"process:{pids[0]}"),
    )  # fmt: skip


# Queues


def test_two_consumers_of_one_queue_do_not_wait_for_each_other() -> None:
    """Each has the end of the pipe open to which nobody writes, since they were forked with it."""
    found = of(
        joins(FIRST), member(FIRST, *IN_LINE, on=LOCK, syscall="futex"), member(SECOND, *READS, on=PIPE),
        lock_of(SECOND, FIRST, SECOND), pipe(PIPE, readers=(FIRST, SECOND), writers=(FIRST, SECOND)),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("queue-empty", [FIRST, SECOND])
    assert finding.certainty is not Certainty.PROVED


def test_two_that_ask_each_other_by_two_queues_do() -> None:
    found = of(
        joins(FIRST), member(FIRST, *READS, on=PIPE), member(SECOND, *READS, on=OTHER_PIPE),
        pipe(PIPE, readers=(FIRST,), writers=(SECOND,)), pipe(OTHER_PIPE, readers=(SECOND,), writers=(FIRST,)),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, finding.certainty, suspects(finding)) == ("lock-cycle", Certainty.PROVED, [FIRST, SECOND])


def ring(fill: int) -> Diagnosis:
    """The root waits for the first one, that one for the second or the root, that one for the root."""
    third = "pipe:9"
    return of(
        member(ROOT, *READS, on=PIPE), member(FIRST, *READS, on=OTHER_PIPE), member(SECOND, *READS, on=third),
        pipe(PIPE, readers=(ROOT,), writers=(FIRST,)), pipe(third, readers=(SECOND,), writers=(ROOT,), fill=fill),
        pipe(OTHER_PIPE, readers=(FIRST,), writers=(ROOT, SECOND)),
    )  # fmt: skip


def test_all_wait_for_each_others_items() -> None:
    finding = ring(fill=0).findings[0]
    assert (finding.cause, suspects(finding)) == ("queue-empty", [ROOT, FIRST, SECOND])


def test_an_item_is_on_its_way() -> None:
    assert ring(fill=9).verdict is not Verdict.HUNG


def test_one_that_puts_waits_for_the_consumer_that_lives_and_not_for_one_that_ended() -> None:
    """The consumer waits for a second queue, whose producer is done."""
    uses = tuple(
        SemaphoreUse(pid=pid, object=BOUND, count=count, max_value=32) for pid, count in ((FIRST, 40), (SECOND, -8))
    )
    found = of(
        member(ROOT, *READS, on=OTHER_PIPE), member(FIRST, *PUTS, on=BOUND, syscall="futex", more=uses),
        (kernel_object(BOUND, value=0), holds(FIRST, BOUND), holds(SECOND, BOUND)), member(SECOND, *READS, on=PIPE),
        (process(THIRD, parent=ROOT, state="Z", exit_code=0),), pipe(OTHER_PIPE, readers=(ROOT,), writers=(SECOND,)),
        pipe(PIPE, readers=(SECOND,), writers=(FIRST, SECOND)),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("queue-empty", [THIRD])


# Locks of files

DATABASE, RELATIVE, ABSOLUTE = "file:00:1b:7", 0, 1
"""How time.sleep and usleep(3) differ: the flags of clock_nanosleep(2)."""

IN_WORK = ("job.py:21 work",)
TRIES_AGAIN = ("site-packages/filelock/_api.py:340 BaseFileLock.acquire", "job.py:21 work")


def asleep(pid: int, *frames: str, flags: int, more: Rows = ()) -> Rows:
    return (
        process(pid, parent=ROOT, cmdline=("python", f"{pid}.py")), thread(pid), stack("main", *frames, pid=pid),
        blocked("clock_nanosleep", pid=pid, args=(1, flags), ran_at=0.0, wakes_at=START + 80_000), *more,
    )  # fmt: skip


def tries_again(*, frames: tuple[str, ...] = IN_WORK, flags: int = ABSOLUTE, opened: bool = True) -> Diagnosis:
    """The first of two wakes and sleeps again while the second one sleeps for a day with a file locked."""

    def rows(at: int) -> Rows:
        own = (
            process(FIRST, parent=ROOT), thread(FIRST, slices=at), stack("main", *frames, pid=FIRST, at=at),
            blocked("clock_nanosleep", pid=FIRST, args=(1, flags), wakes_at=START + at + 0.1),
            *((holds(FIRST, DATABASE),) if opened else ()),
        )  # fmt: skip
        locked = kernel_object(DATABASE, kind="file lock", path="/data/study.db", holders=(SECOND,))
        return (*joins(FIRST), *own, *asleep(SECOND, "hook.py:9 send", flags=ABSOLUTE, more=(locked,)))

    return diagnosed([snapshot(*rows(at), at=float(at)) for at in range(12)])


@pytest.mark.parametrize(
    "way", [{}, {"flags": RELATIVE}, {"frames": TRIES_AGAIN, "opened": False}], ids=["by itself", "in a library", "in filelock"]
)  # fmt: skip
def test_whoever_tries_again_for_the_lock_of_a_file_waits_for_its_holder(way: dict[str, Any]) -> None:
    finding = tries_again(**way).findings[0]
    assert (finding.cause, suspects(finding)) == ("lock-held", [SECOND])
    assert finding.certainty is not Certainty.PROVED


@pytest.mark.parametrize(("ended", "hangs"), [(6, True), (12, False)], ids=["long ago", "just now"])
def test_whoever_tries_again_has_not_tried_since_the_holder_ended(ended: int, *, hangs: bool) -> None:
    """Nobody has the lock any more: the next attempt gets it, or all were in vain for a while."""

    def rows(at: int) -> Rows:
        own = (
            process(FIRST, parent=ROOT), thread(FIRST, slices=at), stack("main", *TRIES_AGAIN, pid=FIRST, at=at),
            blocked("clock_nanosleep", pid=FIRST, args=(1, ABSOLUTE), wakes_at=START + at + 0.1),
        )  # fmt: skip
        if at >= ended:
            return (*joins(FIRST), *own, process(SECOND, parent=ROOT, state="Z", exit_code=0))
        locked = kernel_object(DATABASE, kind="file lock", path="/data/study.lock", holders=(SECOND,))
        return (*joins(FIRST), *own, *asleep(SECOND, "hook.py:9 send", flags=ABSOLUTE, more=(locked,)))

    found = diagnosed([snapshot(*rows(at), at=float(at)) for at in range(13)])
    assert bool(found.findings) is hangs, found.because


def test_sleep_without_the_file_is_not_for_the_lock() -> None:
    assert suspects(tries_again(opened=False).findings[0]) == [FIRST]


def test_a_file_that_was_inherited_with_its_lock_is_not_waited_for() -> None:
    """As it is where a program allows one run at a time: the root has the lock, and its child the file."""
    lock = (
        kernel_object(DATABASE, kind="file lock", path="/data/run.lock", holders=(ROOT,)),
        *(Handle(pid=pid, object=DATABASE, fd=3) for pid in (ROOT, FIRST)),
    )  # fmt: skip

    def rows(at: int) -> Rows:
        child = process(FIRST, parent=ROOT, forked=True)
        naps = blocked("clock_nanosleep", pid=FIRST, args=(1, RELATIVE), wakes_at=START + at + 0.1)
        return (
            *joins(FIRST), *lock, child, thread(FIRST, slices=at),
            stack("main", "job.py:21 work", pid=FIRST, at=at), naps,
        )  # fmt: skip

    finding = diagnosed([snapshot(*rows(at), at=float(at)) for at in range(12)]).findings[0]
    assert suspects(finding) == [FIRST]


def test_the_holder_waits_for_a_sign_that_comes_at_the_end() -> None:
    """A child that was forked inside of the lock has it too, and the root would tell it to stop when all is over."""
    waits = ("multiprocessing/synchronize.py:349 Event.wait",)
    event = "semaphore:00:3:0"
    found = of(
        joins(FIRST), member(FIRST, on=DATABASE, syscall="flock"),
        member(SECOND, *waits, on=event, syscall="futex"),
        (kernel_object(event, value=0), holds(SECOND, event), holds(ROOT, event)),
        (kernel_object(DATABASE, kind="file lock", path="/data/.lock", holders=(SECOND,)),),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("lock-held", [SECOND])


# Terminals


def test_whoever_reads_a_terminal_waits_for_those_who_print_to_it() -> None:
    """The root has made a terminal; the first one was started in it and waits for the second, which was stopped."""
    terminal = "terminal:/dev/pts/3"
    found = of(
        member(ROOT, on="pty:3"), (kernel_object("pty:3", peer=terminal), holds(FIRST, terminal), holds(SECOND, terminal)),
        member(FIRST, "multiprocessing/process.py:149 BaseProcess.join", on=f"process:{SECOND}", syscall="wait4"),
        (kernel_object(f"process:{SECOND}"), process(SECOND, parent=FIRST, state="T"), thread(SECOND),
         stack("main", "job.py:23 confirm", pid=SECOND), blocked("read", pid=SECOND, state="T", ran_at=0.0)),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("stopped", [SECOND])


@pytest.mark.parametrize(("descriptor", "cause"), [(7, "io-wait"), (0, "debugger")])
def test_one_waits_for_a_person_at_its_standard_input_only(descriptor: int, cause: str) -> None:
    line = "terminal:/dev/ttyUSB0"
    reads = blocked("read", line, pid=FIRST, ran_at=0.0, args=(descriptor,))
    found = of(
        joins(FIRST), (process(FIRST, parent=ROOT), thread(FIRST), stack("main", "gauge.py:7 readline", pid=FIRST), reads),
        (kernel_object(line, kind="terminal", path="/dev/ttyUSB0"),),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == (cause, [FIRST])


# Programs that others wrote


@pytest.mark.parametrize(
    ("syscall", "cause", "who"), [("openat", "io-wait", SECOND), ("clock_nanosleep", "main-stuck", FIRST)]
)
def test_a_program_in_a_file_stands_itself_and_else_who_started_it(syscall: str, cause: str, who: int) -> None:
    """A worker reads what its child prints."""
    found = of(
        joins(FIRST), member(FIRST, on=PIPE), pipe(PIPE, readers=(FIRST,), writers=(SECOND,)),
        (process(SECOND, parent=FIRST, name="cat", cmdline=("cat", "data/3.tar")), thread(SECOND),
         blocked(syscall, pid=SECOND, ran_at=0.0), Unknown(table="stacks", pid=SECOND, reason=NOT_PYTHON)),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == (cause, [who])


# The dead


@pytest.mark.parametrize(("name", "dead"), [
    ("ForkProcess-2", FIRST), ("Process-3", None), ("evaluate", None), (f"Process-{10**17}", None),
])  # fmt: skip
def test_a_sibling_that_left_no_trace(name: str, dead: int | None) -> None:
    """The name of the waiter tells how many came before it, and one pid is missing between its parent's and its own."""
    waiter = ROOT + 2
    found = of(
        (*joins(waiter), KnownChild(pid=ROOT, child=waiter, name=name)),
        member(waiter, "multiprocessing/synchronize.py:95 SemLock.__enter__", on=LOCK, syscall="futex"),
        (kernel_object(LOCK, value=0), holds(waiter, LOCK), holds(ROOT, LOCK),
         SemaphoreUse(pid=waiter, object=LOCK, count=0, max_value=1), SemaphoreUse(pid=ROOT, object=LOCK, count=0, max_value=1)),
    )  # fmt: skip
    finding = found.findings[0]
    assert finding.cause == "lock-orphaned"
    assert suspects(finding) == ([ROOT + 1] if dead else [])


# The GIL


def reader(*, owns_gil: bool) -> Diagnosis:
    """The main thread reads a pipe that another thread of its process is to fill; that one asks for the GIL."""
    demux = ROOT + 1
    asks = blocked("futex", f"futex:{ROOT}:0x70", tid=demux, ran_at=0.0, wakes_at=START + 12.005)
    main = msgspec.structs.replace(stack("main", "codec.py:28 frames"), owns_gil=owns_gil)
    return of(
        (process(), thread(), main, blocked("read", PIPE, ran_at=0.0), thread(ROOT, demux), asks,
         stack("demux", "codec.py:21 demux", tid=demux)),
        pipe(PIPE, readers=(ROOT,), writers=(ROOT,)),
    )  # fmt: skip


def test_whoever_waits_with_the_gil_is_asked_to_let_it_go() -> None:
    finding = reader(owns_gil=True).findings[0]
    assert (finding.cause, [suspect.thread for suspect in finding.suspects]) == ("gil-held", ["MainThread"])


def test_without_the_gil_the_other_thread_may_fill_the_pipe() -> None:
    assert reader(owns_gil=False).verdict is not Verdict.HUNG


# Ranks


def rank(pid: int, number: int, call: str, line: int, **known: str) -> Rows:
    called = msgspec.structs.replace(frame(f"{C10D}:{line} {call}"), known=known or None)
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "3"}), thread(pid),
        stack("main", called, f"job.py:{line} run", pid=pid), blocked(pid=pid, ran_at=0.0),
    )  # fmt: skip


def test_a_receive_waits_for_the_rank_it_names() -> None:
    """Rank 2 sends to rank 0, and is right to: ranks 0 and 1 each wait for the other's message."""
    found = of(
        joins(FIRST), rank(FIRST, 0, "recv", 2740, src="1"), rank(SECOND, 1, "recv", 2740, src="0"),
        rank(THIRD, 2, "send", 2753, dst="0"),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("sendrecv-unmatched", [FIRST, SECOND])


def test_a_receive_from_anybody_waits_for_all() -> None:
    found = of(joins(FIRST), rank(FIRST, 0, "recv", 2740), rank(SECOND, 1, "recv", 2740), rank(THIRD, 2, "recv", 2740))
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("sendrecv-unmatched", [FIRST, SECOND, THIRD])


def comes(pid: int, number: int, method: str) -> Rows:
    called = msgspec.structs.replace(frame(f"{C10D}:1899 init_process_group"), known={"init_method": method})
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "3"}), thread(pid),
        stack("main", called, "job.py:9 run", pid=pid), blocked(pid=pid, ran_at=0.0),
    )  # fmt: skip


def test_a_rank_that_looks_for_the_others_elsewhere() -> None:
    here, there = "tcp://127.0.0.1:29500", "tcp://127.0.0.1:29501"
    found = of(joins(FIRST), comes(FIRST, 0, here), comes(SECOND, 1, there), comes(THIRD, 2, here))
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("rendezvous", [SECOND])
    assert f"rank 1 looks for the others at {there}" in finding.summary


def test_two_names_of_one_address() -> None:
    found = of(joins(FIRST), comes(FIRST, 0, "tcp://localhost:29500"), comes(SECOND, 1, "tcp://127.0.0.1:29500"))
    assert not any("look" in finding.summary for finding in found.findings)


def test_ranks_of_two_jobs_do_not_look_for_each_other() -> None:
    """Both have a rank 0."""
    here, there = "tcp://127.0.0.1:29500", "tcp://127.0.0.1:29501"
    found = of(joins(FIRST), comes(FIRST, 0, here), comes(SECOND, 0, there), comes(THIRD, 1, there))
    assert not any("look" in finding.summary for finding in found.findings)


def test_a_new_group_is_a_collective_of_all_ranks() -> None:
    found = of(
        joins(FIRST), rank(FIRST, 0, "new_group", 5863), rank(SECOND, 1, "new_group", 5863),
        rank(THIRD, 2, "broadcast", 2900),
    )  # fmt: skip
    finding = found.findings[0]
    assert (finding.cause, suspects(finding)) == ("collective-mismatch", [THIRD])


def test_the_word_of_a_robust_mutex_names_its_owner() -> None:
    """As LMDB has one in its file; the same word read as a semaphore's value would be a great many permits."""
    mutex = "semaphore:fe:00:77:40"
    word = 0x8000_0000 | SECOND
    now = snapshot(
        process(), stack("main", "job.py:25 store"), blocked("futex", mutex), holds(ROOT, mutex),
        process(SECOND, parent=ROOT), thread(SECOND), stack("main", "job.py:30 store", pid=SECOND), holds(SECOND, mutex),
        kernel_object(mutex, value=word),
    )  # fmt: skip
    edge = node(JobState(history(now), now), (ROOT, ROOT)).edge
    assert edge is not None
    assert (edge.targets, edge.basis, edge.holder_known) == (((SECOND, SECOND),), Basis.MEMORY, True)


@pytest.mark.parametrize(
    ("owner", "stranger", "targets"),
    [
        (SECOND, False, ((SECOND, SECOND),)),
        (777, False, (NoReleaser,)),
        (777, True, (External,)),
    ],
    ids=["alive", "dead", "perhaps-of-another-job"],
)
def test_the_owner_of_a_mutex_in_shared_memory(owner: int, targets: tuple[object, ...], *, stranger: bool) -> None:
    mutex = "semaphore:00:01:77:0"
    now = snapshot(
        process(), stack("main", "job.py:25 paint"), blocked("futex", mutex), holds(ROOT, mutex),
        process(SECOND, parent=ROOT), thread(SECOND), stack("main", "job.py:30 paint", pid=SECOND), holds(SECOND, mutex),
        kernel_object(mutex, value=2, owner_tid=owner),
    )  # fmt: skip
    now = msgspec.structs.replace(now, outsiders=(holds(900, mutex),) if stranger else ())
    edge = node(JobState(history(now), now), (ROOT, ROOT)).edge
    assert edge is not None
    assert tuple(target if isinstance(target, tuple) else type(target) for target in edge.targets) == targets


# Named pipes


def script(pid: int, command: int) -> Rows:
    """A shell that waits for a program, which waits until the other end of a named pipe is opened."""
    return (
        process(pid, parent=ROOT, name="sh", cmdline=("sh", "run.sh")), thread(pid), kernel_object(f"process:{command}"),
        Unknown(table="stacks", pid=pid, reason=NOT_PYTHON), blocked("wait4", f"process:{command}", pid=pid, ran_at=0.0),
        process(command, parent=pid, cmdline=("python", "read.py")), thread(command),
        stack("main", "read.py:3 read", pid=command), blocked("openat", pid=command, wchan="wait_for_partner", ran_at=0.0),
    )  # fmt: skip


def test_programs_below_scripts_that_open_named_pipes_do_not_ask_each_other_for_ever() -> None:
    found = of(joins(FIRST), script(FIRST, FIRST + 10), script(SECOND, SECOND + 10))
    assert found.verdict is Verdict.HUNG
    assert suspects(found.findings[0]) == [FIRST + 10]
