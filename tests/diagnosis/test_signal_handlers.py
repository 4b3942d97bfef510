"""A handler of a signal that waits, and what it interrupted."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Finding
from mpmon.diagnosis.stacks.frames import interrupted
from tests.builders import ROOT, blocked, frame, holds, kernel_object, process, snapshot, stack, thread, watched

WORKER = 4121
SOCKET, FAR = "socket:7", "socket:8"
RECEIVES = (
    "multiprocessing/connection.py:395 Connection._recv", "multiprocessing/connection.py:430 Connection._recv_bytes",
    "multiprocessing/connection.py:250 _ConnectionBase.recv", "job.py:48 main",
)  # fmt: skip


@pytest.mark.parametrize(
    "wait",
    ["multiprocessing/connection.py:395 Connection._recv", "lib/subprocess.py:1930 Popen._try_wait",
     "lib/selectors.py:468 EpollSelector.select", "lib/socket.py:718 SocketIO.readinto"],
)  # fmt: skip
def test_who_only_waits_and_yet_calls_was_interrupted(wait: str) -> None:
    assert interrupted(stack("main", "job.py:14 reap", wait, "job.py:48 main")) == frame(wait)


@pytest.mark.parametrize(
    "frames",
    [RECEIVES,
     ("job.py:9 __setstate__", "multiprocessing/connection.py:250 _ConnectionBase.recv", "job.py:48 main"),
     ("job.py:9 is_done", "lib/threading.py:350 Condition.wait_for", "job.py:48 main"),
     ("job.py:14 reap", "job.py:48 main")],
)  # fmt: skip
def test_what_a_library_calls_is_no_handler(frames: tuple[str, ...]) -> None:
    assert interrupted(stack("main", *frames)) is None


def waits_for_its_worker(*frames: str) -> Finding:
    """The main program waits for the end of a worker that waits for its next task."""
    return watched(snapshot(
        process(), thread(), stack("main", *frames), blocked("wait4", f"process:{WORKER}", ran_at=0.0),
        kernel_object(f"process:{WORKER}"), holds(ROOT, FAR), kernel_object(FAR, peer=SOCKET),
        process(WORKER, parent=ROOT, cmdline=("python", "worker.py")), thread(WORKER),
        stack("main", *RECEIVES[:3], "job.py:24 worker", pid=WORKER), blocked("read", SOCKET, pid=WORKER, ran_at=0.0),
        kernel_object(SOCKET, peer=FAR, fill=0), holds(WORKER, SOCKET),
    )).findings[0]  # fmt: skip


def test_a_handler_that_waits_keeps_its_own_program_from_going_on() -> None:
    finding = waits_for_its_worker("job.py:14 reap", *RECEIVES)
    assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("main-stuck", [ROOT])
    assert "a signal handler" in finding.summary


def test_without_a_handler_it_is_a_task_that_nobody_puts() -> None:
    finding = waits_for_its_worker("multiprocessing/process.py:149 BaseProcess.join", "job.py:48 main")
    assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("queue-empty", [WORKER])
