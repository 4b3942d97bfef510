"""Two ranks share one GPU.

What it looks like: half of the GPUs are idle, or memory runs out at half the batch size; with NCCL the job may not even start
(Duplicate GPU detected).
Why: every rank uses cuda:0, because torch.cuda.set_device was not called or all see the same CUDA_VISIBLE_DEVICES; or more
ranks were started than there are GPUs.
What to do: call torch.cuda.set_device(local_rank) first; start as many ranks as there are GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus import Device
from mpmon.diagnosis.humanize import size
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "gpu-shared"

MOST_LINES = 4

_ADVICE = (
    "Call torch.cuda.set_device(local_rank) first, or let each rank see one GPU (CUDA_VISIBLE_DEVICES).",
    "NCCL does not let two ranks use one GPU; start no more ranks than there are GPUs (torchrun --nproc-per-node).",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each device, or MIG instance, that is the own one of several ranks."""
    for device, heads in job.gpus.owners.items():
        ranks = sorted((head for head in heads if job.role(head).is_rank), key=lambda head: job.role(head).rank or 0)
        undivided = device[1] is None and job.gpus.is_divided(device[0])
        if len(ranks) > 1 and not undivided:
            yield _remark(job, device, ranks)


def _remark(job: JobState, device: Device, ranks: list[int]) -> Remark:
    served = all("mps" in row.kinds for row in job.gpus.on[device] if row.pid in ranks)
    return Remark(
        topic=TOPIC, pids=tuple(ranks), gpu_uuids=(device[0],),
        summary=f"{job.gpus.who(ranks)} share {job.gpus.name(device)}" + (", as clients of MPS" if served else ""),
        evidence=(*_count(job), *(_line(job, rank, device) for rank in ranks[:MOST_LINES])),
        advice=("MPS is made for that: change it only if it is not intended.",) if served else _ADVICE,
    )  # fmt: skip


def _count(job: JobState) -> Iterator[str]:
    """There are fewer devices than ranks."""
    ranks, devices = len(job.gpus.ranks), len(job.snapshot.gpus)
    if 0 < devices < ranks and not any(job.gpus.is_divided(gpu.uuid) for gpu in job.snapshot.gpus):
        yield f"{ranks} ranks run on a machine with {devices} GPU{'s' if devices > 1 else ''}"


def _line(job: JobState, rank: int, device: Device) -> str:
    share = next(share for share in job.gpus.use[rank] if share.device == device)
    held = f": {size(share.memory_bytes)}" if share.memory_bytes is not None else ""
    return f"{job.full_name(rank)}{held}{job.gpus.environment(rank)}"
