"""Best practice is told where the facts call for it, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.advice.practices import ADVICE, available_cpus
from mpmon.diagnosis.findings import Diagnosis
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Cgroup, Row
from tests.builders import ROOT, blocked, history, holds, kernel_object, process, snapshot, stack, watched
from tests.diagnosis.test_rules import RESULTS, job, trainer, worker

LAUNCH = "multiprocessing/popen_spawn_posix.py:62 Popen._launch"
GET = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 {}.get", "use.py:9 main")


def said(found: Diagnosis) -> str:
    return "\n".join(found.findings[0].advice)


def stuck(pid: int) -> tuple[Row, ...]:
    frames = ("data.py:20 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop")
    return worker(pid, *frames, syscall="clock_nanosleep", waits_on="pipe:700", wakes_at=2e9)


def on(cpus: int, *parts: tuple[Row, ...]) -> Diagnosis:
    rows = {repr(row): row for part in parts for row in part}
    return watched(msgspec.structs.replace(snapshot(*rows.values()), cpu_count=cpus))


def test_more_loader_workers_than_cpus() -> None:
    assert "3 DataLoader workers share 2 CPUs; num_workers=2 is enough" in said(
        on(2, trainer(), stuck(7), worker(8), worker(9))
    )
    assert "num_workers=2" not in said(on(3, trainer(), stuck(7), worker(8), worker(9)))


@pytest.mark.parametrize(
    ("affinity", "quota", "cpus"), [(None, None, 16), (4, None, 4), (4, 2.0, 2), (None, 0.5, 1), (64, 100.0, 16)]
)
def test_cpus_that_a_job_may_use(affinity: int | None, quota: float | None, cpus: int) -> None:
    now = snapshot(process(cpus=affinity, cgroup="/job"), Cgroup(path="/job", cpus=quota))
    now = msgspec.structs.replace(now, cpu_count=16)
    assert available_cpus(JobState(history(now), now)) == cpus


def starts_a_child(*frames: str, code: int = 1 << 8) -> Diagnosis:
    return watched(
        snapshot(
            process(), stack("main", *frames, "multiprocessing/process.py:121 BaseProcess.start", "train.py:7 main"),
            blocked("write", "pipe:1", writes=True, ran_at=0.0), kernel_object("pipe:1", fill=65536, capacity=65536),
            holds(ROOT, "pipe:1"), process(7, parent=ROOT, state="Z", exit_code=code),
        )
    )  # fmt: skip


def test_a_child_of_spawn_that_died_while_it_started() -> None:
    assert 'if __name__ == "__main__":' in said(starts_a_child(LAUNCH))
    assert "__main__" not in said(starts_a_child("train.py:5 send"))


@pytest.mark.parametrize(
    ("queue", "code", "told"), [("Queue", 0, True), ("Queue", 9, False), ("SimpleQueue", 0, False)]
)
def test_items_in_a_feeder_thread_are_lost_if_its_process_leaves_early(queue: str, code: int, told: bool) -> None:
    found = watched(
        snapshot(
            process(), stack("main", *(frame.format(queue) for frame in GET)), holds(ROOT, "pipe:1", writes=False),
            blocked("read", "pipe:1", ran_at=0.0), kernel_object("pipe:1", fill=0, capacity=65536),
            process(7, parent=ROOT, state="Z", exit_code=code),
        )
    )  # fmt: skip
    assert found.findings[0].cause == "queue-empty"
    assert ("SimpleQueue, which has no feeder thread" in said(found)) is told


@pytest.mark.parametrize("shared", [False, True])
def test_a_queue_that_a_spawned_process_made_anew(shared: bool) -> None:
    get = tuple(frame.format("Queue") for frame in GET)
    rows = (
        process(), stack("main", *get), holds(ROOT, "pipe:1"), blocked("read", "pipe:1", ran_at=0.0),
        kernel_object("pipe:1", fill=0, capacity=65536), process(7, parent=ROOT, forked=False), stack("main", *get, pid=7),
        holds(7, "pipe:2"), blocked("read", "pipe:2", pid=7, ran_at=0.0), kernel_object("pipe:2", fill=0, capacity=65536),
    )  # fmt: skip
    found = watched(snapshot(*rows, *([holds(ROOT, "pipe:2", reads=False)] if shared else [])))
    assert found.findings[0].cause == "queue-empty"
    assert ("created again in each process that spawn or forkserver starts" in said(found)) is not shared


@pytest.mark.parametrize(("wchan", "told"), [("wait_for_partner", True), ("folio_wait_bit_common", False)])
def test_a_worker_that_opens_a_named_pipe(wchan: str, told: bool) -> None:
    frames = ("data.py:20 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop")
    found = job(trainer(), worker(7, *frames, syscall="openat", waits_on="futex:7:0x1", wchan=wchan))
    assert found.findings[0].cause == "worker-stuck"
    assert ("Opening a named pipe waits" in said(found)) is told


def forked_into_a_lock() -> tuple[Row, ...]:
    return worker(
        7, "data.py:20 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop", syscall="futex",
        waits_on="futex:7:0x7f00", args=(0x7F00, 0x189, 0, 0, 0, 0xFFFFFFFF),
    )  # fmt: skip


def test_a_fork_beside_threads() -> None:
    loads = stack("loads", "lib/socket.py:718 SocketIO.readinto", "train.py:3 load", tid=ROOT + 1)
    found = job((*trainer(), loads), forked_into_a_lock())
    assert found.findings[0].cause == "fork-lock"
    assert "main runs threads (loads)" in said(found)
    assert 'multiprocessing_context="forkserver"' in said(found)
    feeds = stack("QueueFeederThread", "multiprocessing/queues.py:230 Queue._feed", tid=ROOT + 1)
    assert "main runs threads" not in said(job((*trainer(), feeds), forked_into_a_lock()))


def test_a_fork_after_cuda() -> None:
    device = holds(ROOT, "device:/dev/nvidia0")
    assert "CUDA initialised" in said(job((*trainer(), device), forked_into_a_lock()))
    assert "CUDA" not in said(job(trainer(), forked_into_a_lock()))
    assert "CUDA" not in said(job((*trainer(), device), stuck(7)))


def test_a_tensor_whose_sender_is_gone() -> None:
    rebuilds = worker(
        7, "multiprocessing/connection.py:395 Connection._recv", "torch/multiprocessing/reductions.py:540 rebuild_storage_fd",
        "data.py:20 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop", syscall="read", waits_on="socket:5",
    )  # fmt: skip
    assert "The sender of a tensor must stay alive" in said(job(trainer(), rebuilds))


def receives() -> tuple[Row, ...]:
    """The trainer takes a tensor out of a batch, for which the worker that made it has to answer."""
    return (
        process(),
        stack(
            "main", "multiprocessing/connection.py:395 Connection._recv", "multiprocessing/resource_sharer.py:57 DupFd.detach",
            "torch/multiprocessing/reductions.py:540 rebuild_storage_fd",
            "torch/utils/data/dataloader.py:1275 _try_get_data", "train.py:7 main",
        ),
        blocked("read", RESULTS, ran_at=0.0),
    )  # fmt: skip


def test_a_sender_that_lives_and_stands_elsewhere_is_the_matter_itself() -> None:
    found = job(receives(), stuck(7))
    assert [suspect.pid for suspect in found.findings[0].suspects] == [7]
    assert "The sender of a tensor" not in said(found)


def test_the_program_of_one_that_was_stopped_needs_no_change() -> None:
    stopped = [process(pid, parent=ROOT, state="T", name="pt_data_worker") for pid in (7, 8, 9)]
    found = on(2, receives(), tuple(stopped), tuple(blocked("read", pid=row.pid, state="T") for row in stopped))
    assert found.findings[0].cause == "stopped"
    find_out, go_on = found.findings[0].advice
    assert find_out.startswith("First find out who stopped it")
    assert go_on.startswith("Then continue it: kill -CONT")


def test_a_healthy_job_gets_no_advice_and_every_entry_says_what_it_is_for() -> None:
    assert all(entry.__doc__ for entry in ADVICE)
    assert RESULTS.startswith("pipe:")
