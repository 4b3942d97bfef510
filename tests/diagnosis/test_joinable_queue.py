"""Work that nobody does any more: a consumer that joins its own task, a worker that crashed beside others, a stage that ended
without a word, a pool that is the parent's.
"""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Verdict
from mpmon.model import KnownChild, LockUse, QueueState, Row, Unknown
from tests.builders import ROOT, blocked, holds, kernel_object, process, snapshot, stack, thread, watched

FIRST, SECOND, THIRD = 4121, 4122, 4123
TASKS, REPLIES, BELL = "pipe:7", "pipe:8", "semaphore:00:1:0"
"""Two queues, and what `join` of the first one sleeps on."""

RECEIVES = (
    "multiprocessing/connection.py:395 Connection._recv",
    "multiprocessing/connection.py:250 _ConnectionBase.recv",
)
GETS = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 Queue.get")
JOINS = ("multiprocessing/synchronize.py:268 Condition.wait", "multiprocessing/queues.py:331 JoinableQueue.join")
JOINS_PROCESS = ("multiprocessing/process.py:149 BaseProcess.join",)
KILLED, FAILED, TOLD_TO_END, WELL = 9, 1 << 8, 15, 0

Rows = tuple[Row, ...]


def of(*parts: Rows) -> Diagnosis:
    return watched(snapshot(*(row for part in parts for row in part)))


def first_of(*parts: Rows) -> Finding:
    found = of(*parts)
    assert found.verdict is Verdict.HUNG, found.because
    return found.findings[0]


def suspects(finding: Finding) -> list[int]:
    return sorted(suspect.pid for suspect in finding.suspects)


def member(pid: int, *frames: str, on: str, syscall: str = "read", parent: int = ROOT) -> Rows:
    return (
        process(pid, parent=1 if pid == ROOT else parent), thread(pid),
        stack("main", *frames, f"job.py:{pid % 100} work", pid=pid), blocked(syscall, on, pid=pid, ran_at=0.0),
    )  # fmt: skip


def dead(pid: int, code: int, *, parent: int = ROOT, name: str = "python") -> Rows:
    return (process(pid, parent=parent, state="Z", exit_code=code, name=name, cmdline=()),)


def pipe(name: str, *, reader: int, writers: tuple[int, ...]) -> Rows:
    ends = ((pid, pid == reader, pid in writers) for pid in dict.fromkeys((reader, *writers)))
    return (
        kernel_object(name, fill=0, capacity=65536),
        *(holds(pid, name, reads=reads, writes=writes) for pid, reads, writes in ends),
    )


# A consumer that joins the queue of its own task


def flush(*, unfinished: int = 1, items: int = 0, undone: int = 1, joined: str = BELL) -> Rows:
    """A consumer handles an item by joining the queue from which it has it; main waits for its reply."""
    tasks = QueueState(
        object=TASKS, kind="JoinableQueue", pid=ROOT, items=items, putters=(ROOT,), getters=(FIRST,), joined=joined,
        ledgers=((ROOT, 6), (FIRST, -6)), unfinished=unfinished, undone=((ROOT, 0), (FIRST, undone)),
    )  # fmt: skip
    return (
        *member(ROOT, *GETS, on=REPLIES), *pipe(REPLIES, reader=ROOT, writers=(FIRST,)), tasks,
        *member(FIRST, *JOINS, on=BELL, syscall="futex"), kernel_object(BELL, value=0), holds(ROOT, BELL), holds(FIRST, BELL),
    )  # fmt: skip


def test_a_consumer_joins_the_queue_before_its_own_task_is_done() -> None:
    finding = first_of(flush())
    assert (finding.cause, suspects(finding)) == ("self-deadlock", [FIRST])
    assert "by its acquire counts pid 4121 has taken 1 more than it called task_done() for" in finding.evidence[0]
    # Another process could say it in its place, though none ever did.
    assert finding.certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    "other",
    [flush(unfinished=2), flush(unfinished=2, items=1), flush(undone=0), flush(joined="semaphore:00:9:0")],
    ids=["another one has a task as well", "one was not taken yet", "it has done its own", "it joins another queue"],
)
def test_who_joins_for_others_is_not_said_to_wait_for_itself(other: Rows) -> None:
    assert first_of(other).cause != "self-deadlock"


def test_another_thread_of_the_consumer_may_be_at_the_task() -> None:
    helper = (
        thread(FIRST, 5001), stack("helper", "multiprocessing/queues.py:103 Queue.get", pid=FIRST, tid=5001),
        blocked("read", REPLIES, pid=FIRST, tid=5001, ran_at=0.0),
    )  # fmt: skip
    assert first_of(flush(), helper).cause != "self-deadlock"


# A worker that crashed beside one that waits


def hand_made_pool(*beside: Row) -> Finding:
    """Main listens to the one worker that is left, and that one to main."""
    return first_of(
        member(ROOT, *RECEIVES, on=REPLIES), member(FIRST, *RECEIVES, on=TASKS), beside,
        pipe(REPLIES, reader=ROOT, writers=(FIRST,)), pipe(TASKS, reader=FIRST, writers=(ROOT,)),
    )  # fmt: skip


@pytest.mark.parametrize("code", [KILLED, FAILED])
def test_the_work_of_one_that_crashed_is_forgotten(code: int) -> None:
    finding = hand_made_pool(*dead(SECOND, code))
    assert (finding.cause, suspects(finding)) == ("worker-dead", [SECOND])
    assert finding.certainty is Certainty.LIKELY


def test_one_that_was_collected_is_remembered_by_its_master() -> None:
    crashed = KnownChild(pid=ROOT, child=SECOND, returncode=-9, name="Process-2")
    finding = hand_made_pool(crashed)
    assert (finding.cause, suspects(finding)) == ("worker-dead", [SECOND])


@pytest.mark.parametrize(
    "other",
    [
        dead(SECOND, WELL), dead(SECOND, TOLD_TO_END), dead(SECOND, KILLED, name="nvidia-smi"),
        (KnownChild(pid=ROOT, child=SECOND, returncode=1),), dead(SECOND, KILLED, parent=FIRST),
    ],
    ids=["it had finished", "it was told to end", "another program", "a program that was called", "not the master's"],
)  # fmt: skip
def test_two_that_listen_to_each_other_wait_for_each_other(other: Rows) -> None:
    finding = hand_made_pool(*other)
    assert (finding.cause, suspects(finding)) == ("lock-cycle", [ROOT, FIRST])


def test_a_crash_does_not_explain_who_took_two_locks() -> None:
    """What each of them waits for is held by the other one."""
    one, other = "file:00:1b:7", "file:00:1b:8"
    finding = first_of(
        member(ROOT, on=one, syscall="flock"), member(FIRST, on=other, syscall="flock"), dead(SECOND, KILLED),
        (msgspec.structs.replace(kernel_object(one), kind="file lock", holders=(FIRST,)),),
        (msgspec.structs.replace(kernel_object(other), kind="file lock", holders=(ROOT,)),),
    )  # fmt: skip
    assert (finding.cause, suspects(finding)) == ("lock-cycle", [ROOT, FIRST])


# A stage of a pipeline that ended without a word


def starved(*others: Row, putters: tuple[int, ...] = (), by_ended: int | None = 20) -> Finding:
    """A consumer waits for an item; main, which has the writing end since the fork, waits for its end."""
    queue = QueueState(
        object=TASKS, pid=ROOT, capacity=8, items=0, putters=putters, getters=(FIRST,), by_ended=by_ended
    )  # fmt: skip
    return first_of(
        member(ROOT, *JOINS_PROCESS, on=f"process:{FIRST}", syscall="wait4"), (kernel_object(f"process:{FIRST}"), queue),
        member(FIRST, *GETS, on=TASKS), pipe(TASKS, reader=FIRST, writers=(ROOT, FIRST)), others,
    )  # fmt: skip


def test_all_that_came_was_put_by_one_that_ended() -> None:
    finding = starved(*dead(SECOND, WELL))
    assert (finding.cause, suspects(finding)) == ("queue-empty", [SECOND])
    assert any("20 items in pipe:7 came from processes that have ended" in line for line in finding.evidence)


def test_of_two_stages_that_ended_the_one_that_was_seen_to_put() -> None:
    finding = starved(*dead(SECOND, WELL), *dead(THIRD, WELL), putters=(THIRD,))
    assert (finding.cause, suspects(finding)) == ("queue-empty", [THIRD])


def test_which_of_two_stages_it_was_is_not_guessed() -> None:
    finding = starved(*dead(SECOND, WELL), *dead(THIRD, WELL))
    assert suspects(finding) == [FIRST]
    assert any(f"pid {SECOND}" in line and f"pid {THIRD}" in line for line in finding.evidence)


def test_the_consumer_of_a_main_that_puts_has_no_dead_producer() -> None:
    finding = starved(*dead(SECOND, WELL), putters=(ROOT,))
    assert suspects(finding) == [FIRST]


@pytest.mark.parametrize("by_ended", [-3, 0, None], ids=["it took its part", "it did neither", "somebody does not say"])
def test_one_that_ended_is_not_said_to_have_put(by_ended: int | None) -> None:
    finding = starved(*dead(SECOND, WELL), by_ended=by_ended)
    assert suspects(finding) == [FIRST]


def test_a_program_that_was_called_has_not_put() -> None:
    assert suspects(starved(KnownChild(pid=ROOT, child=SECOND, returncode=0))) == [FIRST]


def test_a_process_that_may_not_be_read_may_have_put() -> None:
    hidden = (process(THIRD, parent=ROOT), Unknown(table="handles", pid=THIRD, reason="cannot be read"))
    assert SECOND not in suspects(starved(*dead(SECOND, WELL), *hidden))


def test_a_child_of_which_nothing_is_left_may_have_put() -> None:
    """By their names there were four."""
    named = [KnownChild(pid=ROOT, child=FIRST, name="Process-4"), KnownChild(pid=ROOT, child=SECOND, name="Process-3")]
    assert suspects(starved(*dead(SECOND, WELL), *named)) == [FIRST]


# A pool that is the parent's

MANAGER = 5000
HANDS_OVER = ("concurrent/futures/process.py:410 wait_result_broken_or_wakeup", "concurrent/futures/process.py:330 run")
DELIVERS = ("multiprocessing/pool.py:579 Pool._handle_results",)
FUTURE = ("lib/threading.py:327 Condition.wait", "concurrent/futures/_base.py:451 Future.result")
RESULT = ("lib/threading.py:327 Condition.wait", "multiprocessing/pool.py:768 ApplyResult.get")
WORKS = ("multiprocessing/pool.py:125 worker",)


def waits_for_result(pid: int, frames: tuple[str, ...], *, parent: int, forked: bool = True) -> Rows:
    child = msgspec.structs.replace(process(pid, parent=parent), forked=forked)
    lock = LockUse(pid=pid, tid=pid, object=f"futex:{pid}:0x10", kind="Lock", holds=False, depth=0)
    return (
        child, thread(pid), stack("main", *frames, "job.py:28 score", pid=pid), lock,
        blocked("futex", f"futex:{pid}:0x10", pid=pid, ran_at=0.0),
    )  # fmt: skip


def parent_of(pid: int, *, service: tuple[str, ...] = HANDS_OVER) -> Rows:
    """It joins a child, and has a thread that hands the results of a pool over."""
    return (
        *member(ROOT, *JOINS_PROCESS, on=f"process:{pid}", syscall="wait4"), kernel_object(f"process:{pid}"),
        thread(ROOT, MANAGER), stack("manager", *service, tid=MANAGER), blocked("poll", tid=MANAGER, ran_at=0.0),
    )  # fmt: skip


@pytest.mark.parametrize(("frames", "service"), [(FUTURE, HANDS_OVER), (RESULT, DELIVERS)], ids=["executor", "pool"])
def test_a_forked_child_uses_the_pool_of_its_parent(frames: tuple[str, ...], service: tuple[str, ...]) -> None:
    finding = first_of(parent_of(FIRST, service=service), waits_for_result(FIRST, frames, parent=ROOT))
    assert (finding.cause, suspects(finding)) == ("fork-thread", [FIRST])
    assert "the pool's results go through thread manager of its parent, pid 4100" in finding.evidence


def test_the_pool_may_be_that_of_the_parent_of_its_parent() -> None:
    between = msgspec.structs.replace(process(SECOND), ppid=ROOT, forked=True)
    joins = (
        between, thread(SECOND), stack("main", *JOINS_PROCESS, "job.py:9 work", pid=SECOND),
        blocked("wait4", f"process:{FIRST}", pid=SECOND, ran_at=0.0), kernel_object(f"process:{FIRST}"),
    )  # fmt: skip
    finding = first_of(parent_of(SECOND), joins, waits_for_result(FIRST, FUTURE, parent=SECOND))
    assert (finding.cause, suspects(finding)) == ("fork-thread", [FIRST])


@pytest.mark.parametrize(
    ("frames", "service", "forked"),
    [
        (FUTURE, HANDS_OVER, False),
        (FUTURE, ("multiprocessing/queues.py:231 Queue._feed",), True),
        (("lib/threading.py:327 Condition.wait", "lib/queue.py:171 Queue.get"), HANDS_OVER, True),
    ],
    ids=["it was spawned", "a feeder thread hands nothing over", "no result of a pool"],
)
def test_what_the_threads_of_the_parent_could_not_have_done(
    frames: tuple[str, ...], service: tuple[str, ...], forked: bool
) -> None:
    finding = first_of(parent_of(FIRST, service=service), waits_for_result(FIRST, frames, parent=ROOT, forked=forked))
    assert (finding.cause, suspects(finding)) == ("thread-dead", [FIRST])


def test_a_task_of_a_pool_waits_for_its_own_pool() -> None:
    frames = (*FUTURE, "job.py:30 task", *WORKS)
    finding = first_of(parent_of(FIRST, service=DELIVERS), waits_for_result(FIRST, frames, parent=ROOT))
    assert (finding.cause, suspects(finding)) == ("self-deadlock", [FIRST])


def test_a_child_with_workers_of_its_own_has_its_own_pool() -> None:
    worker = (
        process(THIRD, parent=FIRST), thread(THIRD), kernel_object("pipe:9", fill=0, capacity=65536),
        stack("main", *GETS, *WORKS, pid=THIRD), blocked("read", "pipe:9", pid=THIRD, ran_at=0.0),
    )  # fmt: skip
    finding = first_of(parent_of(FIRST), waits_for_result(FIRST, FUTURE, parent=ROOT), worker)
    assert finding.cause != "fork-thread"
