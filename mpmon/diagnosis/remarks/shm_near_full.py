"""/dev/shm is nearly full.

What it looks like: "bus error" or "unable to allocate shared memory(shm)" in a DataLoader worker, now or soon.
Why: workers' batches, queues of tensors and shared models are stored there; a container has 64 MiB by default.
What to do: docker run --shm-size=8g or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm; fewer workers, a
lower prefetch_factor, smaller batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import size
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import SharedMemory

TOPIC = "shm-near-full"

SHARE, MUCH = 0.9, 0.98
"""Shares in use from which it is nearly full: if little is left in bytes; regardless of how much is left."""

LITTLE_BYTES = 1 << 30


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each /dev/shm of the job."""
    for row in job.snapshot.shared_memory:
        left = row.size_bytes - row.used_bytes
        share = row.used_bytes / row.size_bytes if row.size_bytes else 0.0
        if share >= MUCH or (share >= SHARE and left < LITTLE_BYTES):
            yield _remark(job, row, share)


def _remark(job: JobState, row: SharedMemory, share: float) -> Remark:
    memory = job.ipc.memory
    makers = [maker for maker in (memory.by_process if memory else ()) if maker.created_bytes and maker.pid in row.pids]
    makers.sort(key=lambda maker: -maker.created_bytes)
    lines = [f"{size(maker.created_bytes)} by {job.ipc.ground.who(maker.pid)}" for maker in makers[:4]]
    orphans = sum(file.size_bytes for file in memory.orphans) if memory else 0
    left = [f"{size(orphans)} left behind by dead processes"] if orphans else []
    return Remark(
        topic=TOPIC, pids=tuple(maker.pid for maker in makers[:4]),
        summary=f"/dev/shm is {int(100 * share)} % full: {size(row.used_bytes)} of {size(row.size_bytes)}",
        evidence=(*lines, *left) or tuple(f"as pid {pid} sees it" for pid in row.pids[:1]),
        advice=(
            "Give it more room: docker run --shm-size=8g or --ipc=host; in Kubernetes an emptyDir of medium Memory.",
            "Or use less: fewer workers, a lower prefetch_factor, smaller batches.",
        ),
    )  # fmt: skip
