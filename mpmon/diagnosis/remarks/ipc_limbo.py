"""A producer has dropped a thousand blocks of CUDA memory that its consumers still hold.

What it looks like: memory of the producer that del does not free, a warning "Producer process tried to deallocate over 1000
memory blocks referred by consumer processes", and each further del of a shared tensor is slower than the one before.
Why: memory that the producer drops while a consumer holds it goes to a list, the limbo, which torch walks in full at each
free; beyond 1000 blocks it warns once (CUDA_IPC_WARN_AFTER_X_BLOCKS_IN_LIMBO of torch/csrc/CudaIPCTypes.cpp).
What to do: let consumers del what they received before they take more; with a DataLoader that returns CUDA tensors, let
workers return CPU tensors (pin_memory=True), and copy them to the GPU in the trainer.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import several, size
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.ipc.exports import NOT_COLLECTED, most_common
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-limbo"

MOST = 1000
"""CUDA_IPC_WARN_AFTER_X_BLOCKS_IN_LIMBO."""

_ADVICE = (
    "Let the consumer del what it received before it takes more, or copy what it keeps (.clone()).",
    "With a DataLoader: return CPU tensors from workers (pin_memory=True), and copy them to the GPU in the trainer.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer."""
    limbo: dict[int, list[ExportView]] = {}
    for view in job.ipc.exports:
        if view.limbo and view.state != NOT_COLLECTED:
            limbo.setdefault(view.producer, []).append(view)
    for producer, views in sorted(limbo.items()):
        if len(views) > MOST:
            yield _remark(job, producer, views)


def _remark(job: JobState, producer: int, views: list[ExportView]) -> Remark:
    ground = job.ipc.ground
    consumers = list(dict.fromkeys(pid for view in views for pid in view.consumers))
    held = f"held by {several([ground.who(pid) for pid in consumers])}" if consumers else "not received yet"
    all_of_them = "all " if len(consumers) == 1 and all(view.consumers for view in views) else ""
    site = most_common(view.site for view in views)
    return Remark(
        topic=TOPIC, pids=(producer, *consumers),
        summary=f"{len(views)} blocks {size(sum(view.size_bytes or 0 for view in views))} of CUDA memory of "
        f"{ground.who(producer)} are in limbo, {all_of_them}{held}",
        evidence=("it has dropped them, their counts are not 0, and each free walks the whole list",
                  *((f"most sent at {site}",) if site else ())),
        advice=_ADVICE,
    )  # fmt: skip
