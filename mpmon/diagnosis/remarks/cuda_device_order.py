"""Sender and receiver count GPUs differently.

What it looks like: a received tensor is on a different GPU than intended, or "invalid device ordinal", or wrong data.
Why: a message names its GPU by number (cuda:0), and each side counts by its own CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
What to do: give all processes that share CUDA memory the same CUDA_VISIBLE_DEVICES, and choose with torch.cuda.set_device.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus import visible
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import ExportRecord

TOPIC = "cuda-device-order"

Difference = tuple[int, int, int, str, str]
"""Producer, receiver, device number, and the device that this number means to each of them."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each pair of processes, by their initial environments."""
    if not job.snapshot.gpus:
        return
    found = dict.fromkeys(each for record in job.snapshot.exports for each in _differences(job, record))
    for producer, receiver, device, one, other in found:
        ground = job.ipc.ground
        yield Remark(
            topic=TOPIC, pids=(producer, receiver), gpu_uuids=(one, other),
            summary=f"cuda:{device} is {_gpu(job, one)} in {ground.who(producer)} and {_gpu(job, other)} in "
            f"{ground.who(receiver)}, which receives CUDA memory from it",
            evidence=tuple(f"pid {pid}{job.gpus.environment(pid)}" for pid in (producer, receiver)),
            advice=("Give both the same CUDA_VISIBLE_DEVICES, and choose the device with torch.cuda.set_device.",),
        )  # fmt: skip


def _differences(job: JobState, record: ExportRecord) -> Iterator[Difference]:
    takers = job.ipc.ground.received.get((record.file, record.slot), ())
    one = _uuid(job, record.pid, record.device)
    for pid in dict.fromkeys(row.pid for row in takers):
        other = _uuid(job, pid, record.device)
        if one and other and one != other:
            yield record.pid, pid, record.device, one, other


def _uuid(job: JobState, pid: int, device: int) -> str | None:
    process = job.processes.get(pid)
    return visible(process, job.snapshot.gpus, job.snapshot.mig_instances).uuid(device) if process else None


def _gpu(job: JobState, uuid: str) -> str:
    gpu = job.gpus.by_uuid.get(uuid)
    return f"GPU {gpu.index}" if gpu else uuid
