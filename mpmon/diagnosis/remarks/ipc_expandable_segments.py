"""CUDA memory of expandable segments does not arrive: the receiver is not allowed to copy the sender's descriptors.

What it looks like: "pidfd_getfd: Operation not permitted" in the receiver, or transfers that are never received.
Why: with expandable_segments:True torch shares memory by descriptors that the receiver copies from the sender with
pidfd_getfd(2), which needs permission to trace it: the same user, and in a container or under Yama CAP_SYS_PTRACE.
What to do: switch it off (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False) where memory is shared, or give the receiver
that permission (docker run --cap-add SYS_PTRACE).
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.ipc.segments import are_expandable
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-expandable-segments"


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each producer with expandable segments whose transfers do not arrive, or go to another user."""
    stuck: dict[int, list[ExportView]] = {}
    for view, _ in job.ipc.never_received:
        stuck.setdefault(view.producer, []).append(view)
    for producer in sorted({view.producer for view in job.ipc.exports}):
        strangers = _strangers(job, producer)
        if are_expandable(job.processes.get(producer)) and (stuck.get(producer) or strangers):
            yield _remark(job, producer, len(stuck.get(producer, ())), strangers)


def _strangers(job: JobState, producer: int) -> list[int]:
    """Receivers that run as another user, except root."""
    getters = {view.id: view.consumers for view in job.ipc.queues}
    receivers = {
        pid for view in job.ipc.exports if view.producer == producer for pid in getters.get(view.queue or "", ())
    }
    own = job.processes[producer].uid if producer in job.processes else None
    uids = {pid: job.processes[pid].uid for pid in receivers if pid in job.processes}
    return sorted(pid for pid, uid in uids.items() if own is not None and uid not in (None, 0, own))


def _remark(job: JobState, producer: int, count: int, strangers: list[int]) -> Remark:
    ground = job.ipc.ground
    why = f"{count} of its transfers never arrived" if count else f"pid {strangers[0]} is another user's"
    return Remark(
        topic=TOPIC, pids=(producer, *strangers),
        summary=f"{ground.who(producer)} shares CUDA memory with expandable_segments on, and {why}: its receivers need "
        "permission to trace it",
        evidence=(f"PYTORCH_CUDA_ALLOC_CONF of /proc/{producer}/environ; pidfd_getfd(2) requires PTRACE_MODE_ATTACH",),
        advice=(
            "Start it with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False where CUDA memory is shared.",
            "Or give receivers that permission: docker run --cap-add SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=0.",
        ),
    )  # fmt: skip
