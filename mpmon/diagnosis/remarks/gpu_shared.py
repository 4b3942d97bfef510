"""Two ranks share one GPU.

What it looks like: half of the GPUs are idle, or memory runs out at half the batch size; with NCCL the job may not even start
(Duplicate GPU detected).
Why: every rank uses cuda:0, because torch.cuda.set_device was not called or all see the same CUDA_VISIBLE_DEVICES; or more
ranks were started than there are GPUs.
What to do: call torch.cuda.set_device(local_rank) first; start as many ranks as there are GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus import Device
from mpmon.diagnosis.humanize import size

TOPIC = "gpu-shared"

MOST_LINES = 4

_ADVICE = (
    "Call torch.cuda.set_device(local_rank) first, or let each rank see one GPU (CUDA_VISIBLE_DEVICES).",
    "NCCL does not let two ranks use one GPU; start no more ranks than there are GPUs (torchrun --nproc-per-node).",
)


def remarks(case: Case) -> Iterator[Remark]:
    """One for each device, or MIG instance, that is the own one of several ranks."""
    for device, heads in case.gpus.owners.items():
        ranks = sorted(
            (head for head in heads if case.role(head).kind == "rank"), key=lambda head: case.role(head).rank or 0
        )
        undivided = device[1] is None and case.gpus.is_divided(device[0])
        if len(ranks) > 1 and not undivided:
            yield _remark(case, device, ranks)


def _remark(case: Case, device: Device, ranks: list[int]) -> Remark:
    served = all("mps" in row.kinds for row in case.gpus.on[device] if row.pid in ranks)
    return Remark(
        topic=TOPIC, pids=tuple(ranks), gpu_uuids=(device[0],),
        summary=f"{case.gpus.who(ranks)} share {case.gpus.name(device)}" + (", as clients of MPS" if served else ""),
        evidence=(*_count(case), *(_line(case, rank, device) for rank in ranks[:MOST_LINES])),
        advice=("MPS is made for that: change it only if it is not intended.",) if served else _ADVICE,
    )  # fmt: skip


def _count(case: Case) -> Iterator[str]:
    """There are fewer devices than ranks."""
    ranks, devices = len(case.gpus.ranks), len(case.snapshot.gpus)
    if 0 < devices < ranks and not any(case.gpus.is_divided(gpu.uuid) for gpu in case.snapshot.gpus):
        yield f"{ranks} ranks run on a machine with {devices} GPU{'s' if devices > 1 else ''}"


def _line(case: Case, rank: int, device: Device) -> str:
    share = next(share for share in case.gpus.use[rank] if share.device == device)
    held = f": {size(share.memory_bytes)}" if share.memory_bytes is not None else ""
    return f"{case.role(rank).name} (pid {rank}){held}{case.gpus.environment(rank)}"
