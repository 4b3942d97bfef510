"""Causes that are hard to record: one small example each, and what every finding has in common."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.diagnosis.rules import RULES, debugger, fork_thread, item_lost, worker_dead
from mpmon.model import Process, Row, Stack
from tests.builders import ROOT, blocked, holds, kernel_object, process, snapshot, stack, watched

LOADER = "torch/utils/data/dataloader.py"
WAITS_FOR_BATCH = (
    "lib/selectors.py:415 select", "multiprocessing/connection.py:947 wait", "multiprocessing/queues.py:113 Queue.get",
    f"{LOADER}:1291 _MultiProcessingDataLoaderIter._try_get_data", "train.py:7 main",
)  # fmt: skip
WAITS_FOR_WORK = (
    "lib/selectors.py:415 select", "multiprocessing/connection.py:947 wait", "multiprocessing/queues.py:113 Queue.get",
    "torch/utils/data/_utils/worker.py:334 _worker_loop", "multiprocessing/process.py:314 BaseProcess._bootstrap",
)  # fmt: skip
RESULTS = "pipe:500"


def trainer() -> tuple[Row, ...]:
    """Waits for its next batch."""
    return (
        process(), stack("main", *WAITS_FOR_BATCH), blocked("poll", RESULTS, ran_at=0.0),
        kernel_object(RESULTS, fill=0, capacity=65536), holds(ROOT, RESULTS, writes=False),
    )  # fmt: skip


def worker(
    pid: int, *frames: str, syscall: str = "poll", waits_on: str = "pipe:600", **more: object
) -> tuple[Row, ...]:
    """A DataLoader worker, idle unless there are other frames."""
    return (
        process(pid, parent=ROOT, name="pt_data_worker"), stack("main", *(frames or WAITS_FOR_WORK), pid=pid),
        blocked(syscall, waits_on, pid=pid, ran_at=0.0, **more), kernel_object(waits_on, fill=0, capacity=65536),
        holds(pid, RESULTS, reads=False), holds(ROOT, waits_on, reads=False), holds(pid, waits_on, writes=False),
    )  # fmt: skip


def job(*parts: tuple[Row, ...]) -> Diagnosis:
    """What is said of a job made of these, in which nothing happens for a while."""
    rows = {repr(row): row for part in parts for row in part}
    return watched(snapshot(*rows.values()))


def test_debugger() -> None:
    at_prompt = worker(
        7, "lib/cmd.py:126 Pdb.cmdloop", "lib/pdb.py:386 Pdb.interaction", "data.py:20 __getitem__",
        "torch/utils/data/_utils/worker.py:374 _worker_loop", syscall="read", waits_on="device:/dev/null",
    )  # fmt: skip
    found = job(trainer(), at_prompt)
    assert found.verdict is Verdict.HUNG, found.because
    assert found.findings[0].cause == debugger.CAUSE
    assert [suspect.pid for suspect in found.findings[0].suspects] == [7]
    assert str(found.findings[0].suspects[0].frame) == "data.py:20 in __getitem__"


def test_worker_dead() -> None:
    killed = (process(8, parent=ROOT, name="pt_data_worker", state="Z", exit_code=9),)
    found = job(trainer(), worker(7), killed)
    assert found.verdict is Verdict.HUNG, found.because
    assert found.findings[0].cause == worker_dead.CAUSE
    assert [(suspect.pid, suspect.dead) for suspect in found.findings[0].suspects] == [(8, True)]
    assert "was killed by SIGKILL (9)" in found.findings[0].summary


def test_item_lost() -> None:
    found = job(trainer(), worker(7), worker(8))
    assert found.verdict is Verdict.HUNG, found.because
    assert found.findings[0].cause == item_lost.CAUSE
    assert {suspect.pid for suspect in found.findings[0].suspects} == {7, 8}


@pytest.mark.parametrize(("tid", "was_there"), [(6, True), (8, False)])
def test_fork_thread(tid: int, *, was_there: bool) -> None:
    """Its parent has a thread that was there when the worker was forked, or that came later."""
    waits_for_its_thread = worker(
        7, "lib/threading.py:327 Condition.wait", "lib/queue.py:171 Queue.get", "data.py:20 __getitem__",
        "torch/utils/data/_utils/worker.py:374 _worker_loop", "multiprocessing/popen_fork.py:71 Popen._launch",
        "multiprocessing/process.py:121 BaseProcess.start", "train.py:7 main", syscall="futex", waits_on="futex:7:0x7f00",
    )  # fmt: skip
    prefetches = stack("prefetch", "lib/socket.py:718 SocketIO.readinto", "train.py:3 prefetch", tid=tid)
    found = job((*trainer(), prefetches), waits_for_its_thread)
    assert found.verdict is Verdict.HUNG, found.because
    assert (found.findings[0].cause == fork_thread.CAUSE) is was_there
    assert [suspect.pid for suspect in found.findings[0].suspects] == [7]


def test_a_worker_that_waits_for_a_thread_nobody_ever_had_is_stuck() -> None:
    waits = worker(
        7, "lib/threading.py:327 Condition.wait", "lib/threading.py:629 Event.wait", "data.py:20 __getitem__",
        "torch/utils/data/_utils/worker.py:374 _worker_loop", syscall="futex", waits_on="futex:7:0x7f00",
    )  # fmt: skip
    found = job(trainer(), waits)
    assert [finding.cause for finding in found.findings] == ["worker-stuck"]


def test_a_batch_that_lies_in_the_pipe_is_on_its_way() -> None:
    waiting = tuple(row for row in trainer() if row != kernel_object(RESULTS, fill=0, capacity=65536))
    found = job((*waiting, kernel_object(RESULTS, fill=9, capacity=65536)), worker(7))
    assert found.verdict is not Verdict.HUNG


def test_nothing_is_hung_before_it_stood_for_a_while() -> None:
    rows = {repr(row): row for part in (trainer(), worker(7)) for row in part if not hasattr(row, "ran_at")}
    assert watched(snapshot(*rows.values()), seconds=3).verdict is not Verdict.HUNG


@pytest.mark.parametrize("gone", [Process, Stack])
def test_where_too_little_is_known_no_cause_is_proved(gone: type[Row]) -> None:
    parts = (trainer(), worker(7), worker(8))
    rows = {repr(row): row for part in parts for row in part if not (isinstance(row, gone) and row.pid == 8)}  # type: ignore[attr-defined]
    found = watched(snapshot(*rows.values()))
    assert all(finding.certainty is not Certainty.PROVED for finding in found.findings)


def test_a_zombie_root_is_not_hung() -> None:
    found = job((process(state="Z"),))
    assert found.verdict is Verdict.UNKNOWN
    assert "zombie" in found.because


def test_causes_are_unique() -> None:
    causes = [rule.CAUSE for rule in RULES]
    assert len(set(causes)) == len(causes)
