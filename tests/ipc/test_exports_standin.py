"""CUDA memory between processes, on a machine without a GPU: with the stand-in of torch's three methods and the real shim.

What the stand-in cannot show is said in `standin.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mpmon.diagnosis import diagnose
from mpmon.diagnosis.findings import Observation, Remark
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.state.job_state import JobState
from mpmon.reports import sharing
from tests.ipc.looking import Looking, looking_at, remarks_on
from tests.ipc.running import Job, kill
from tests.shim.running import PROGRAMS, place

pytestmark = pytest.mark.live

PROGRAM = "device_tensors.py"
BLOCK = 1024
"""Bytes of one of its tensors."""


def begin(folder: Path) -> Job:
    return Job(str(PROGRAMS / PROGRAM), "spawn", "shim", MPMON_RUN_DIR=str(folder))


def states(job: JobState) -> list[str]:
    return [view.state for view in job.ipc.exports]


def only(job: JobState) -> ExportView:
    (view,) = job.ipc.exports
    return view


def told(job: JobState, topic: str) -> Remark | None:
    return next((remark for remark in remarks(job) if remark.topic == topic), None)


def who(job: JobState, pid: int) -> str:
    return job.ipc.ground.who(pid)


def settled(looking: Looking, *expected: str) -> JobState:
    """The states are these."""
    return looking.until(lambda job: states(job) == list(expected))


def test_standin_a_held_block_has_a_holder_a_size_a_queue_and_a_line(tmp_path: Path) -> None:
    with begin(tmp_path) as running, looking_at(running.pid) as looking:
        consumer = running.hear()["child"]
        running.order("put")
        running.order("put")
        job = settled(looking, "held", "held")
        view = job.ipc.exports[0]
        assert (view.producer, view.slot, view.refcount, view.size_bytes) == (running.pid, 0, 1, BLOCK)
        assert (view.consumers, view.site, view.limbo) == ((consumer,), place(PROGRAM, "PUT", "produce"), False)
        (queue,) = [queue for queue in job.ipc.queues if queue.id == view.queue]
        assert (queue.depth, queue.producers, queue.consumers) == (0, (running.pid,), (consumer,))
        assert (queue.puts, queue.gets, queue.lost) == (2, 2, 0)
        (pair,) = job.ipc.pairs
        assert (pair.producer, pair.consumer, pair.blocks, pair.bytes) == (running.pid, consumer, 2, 2 * BLOCK)
        assert view.reasons["gpu_uuid"] == "the driver names no devices"
        assert remarks_on(job) == []
        seen = Observation(snapshot=job.snapshot, diagnosis=diagnose(looking.history), watched_s=1.0)
        text = "\n".join(sharing.lines(seen))
        assert f"{who(job, consumer)} holds 2 blocks (2 KiB) of {who(job, running.pid)}, oldest " in text
        assert f", queue {view.queue}, sent from {view.site}" in text


def test_standin_what_is_given_back_is_no_export_any_more(tmp_path: Path) -> None:
    with begin(tmp_path) as running, looking_at(running.pid) as looking:
        running.hear()
        running.order("put")
        settled(looking, "held")
        running.order("drop")
        settled(looking)


def test_standin_sent_twice_it_is_held_once(tmp_path: Path) -> None:
    with begin(tmp_path) as running, looking_at(running.pid) as looking:
        running.hear()
        running.order("put")
        running.order("again")
        assert only(settled(looking, "held")).slot == 0


def test_standin_a_dead_consumer_holds_for_ever(tmp_path: Path) -> None:
    with begin(tmp_path) as running, looking_at(running.pid) as looking:
        consumer = running.hear()["child"]
        running.order("put")
        settled(looking, "held")
        kill(consumer)
        job = settled(looking, "held-by-dead")
        remark = told(job, "ipc-leak-by-death")
        assert remark
        assert remark.pids == (running.pid, consumer)
        assert "1 block 1 KiB of CUDA memory" in remark.summary
        assert f"pid {consumer} had received them and died" in remark.summary


def test_standin_released_and_not_collected(tmp_path: Path) -> None:
    with begin(tmp_path) as running, looking_at(running.pid) as looking:
        running.hear()
        running.order("put")
        held = only(settled(looking, "held"))
        running.order("forget")
        # The shim looks which sendings are over when the next one goes out, or when it collects.
        running.order("collect")
        job = looking.until(lambda job: only(job).limbo)
        assert (only(job).state, only(job).slot) == ("held", held.slot)
        running.order("drop")
        view = only(settled(looking, "released-not-collected"))
        assert (view.refcount, view.size_bytes) == (0, BLOCK)
        assert view.released_s is not None
        running.order("collect")
        settled(looking)


def test_standin_handed_out_by_hand_and_never_rebuilt(tmp_path: Path) -> None:
    with begin(tmp_path) as running, looking_at(running.pid) as looking:
        running.hear()
        # The consumer must have a shim that has begun to write, or it may hold what nobody knows of.
        running.order("put")
        running.order("drop")
        running.order("share")
        job = settled(looking, "in-flight")
        assert (only(job).queue, only(job).site) == (None, place(PROGRAM, "SHARE", "produce"))
        assert told(job, "ipc-never-received") is None
        job = looking.round(later_s=400.0)
        remark = told(job, "ipc-never-received")
        assert remark
        assert remark.summary.startswith(
            f"1 transfer of CUDA memory (256 B) of {who(job, running.pid)} was never received"
        )


def test_standin_without_a_shim_only_the_counts_are_known() -> None:
    with Job(str(PROGRAMS / PROGRAM), "spawn") as running, looking_at(running.pid) as looking:
        running.hear()
        running.order("put")
        running.order("put")
        view = only(looking.round())
        assert (view.producer, view.exports, view.refcount, view.state) == (running.pid, 2, 1, "unknown")
        assert view.size_bytes is None
        assert "only the shim (mpmon run) knows" in view.reasons["state"]
