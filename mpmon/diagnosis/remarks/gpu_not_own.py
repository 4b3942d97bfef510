"""Ranks hold memory on another rank's GPU.

What it looks like: nvidia-smi lists every rank on GPU 0 with some hundred MiB each, and rank 0 runs out of memory first.
Why: code that touches CUDA before the rank has chosen its device creates a context on cuda:0, and tensors of a checkpoint are
loaded to the device they were saved from.  A rank that receives CUDA tensors of another device (torch.multiprocessing) has a
context there too, as expected.
What to do: call torch.cuda.set_device(local_rank) before any other CUDA call, or give init_process_group a device_id; load
checkpoints with torch.load(…, map_location="cpu") or with the rank's own device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus import Device, Share
from mpmon.diagnosis.humanize import between, size
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "gpu-not-own"

SMALL_BYTES = 1 << 30
"""A context without anything in it takes less."""

MOST_LINES = 2

_ADVICE = (
    "Call torch.cuda.set_device(local_rank) before any other CUDA call: the default is cuda:0.",
    "Or give init_process_group device_id=torch.device('cuda', local_rank).",
    "Load checkpoints with torch.load(…, map_location=…): tensors go back to the device they were saved from.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each device on which ranks have a context although their own device is another one."""
    strays: dict[Device, list[tuple[int, Share]]] = defaultdict(list)
    for head, own in job.gpus.own.items():
        for share in job.gpus.use[head] if len(job.gpus.devices[head]) > 1 else ():
            if share.device != own and job.role(head).is_rank and _is_small(job, head, share):
                strays[share.device].append((head, share))
    for device, found in strays.items():
        owners = [head for head in job.gpus.owners.get(device, ()) if job.role(head).is_rank]
        if owners or len(found) > 1:
            yield _remark(job, device, found, owners)


def _is_small(job: JobState, head: int, share: Share) -> bool:
    """The share is small compared to the rank's use of its own device; comparable use of two devices is intended."""
    own = next(other for other in job.gpus.use[head] if other.device == job.gpus.own[head])
    if share.memory_bytes is None or own.memory_bytes is None:
        return share.memory_bytes is None
    return share.memory_bytes <= max(own.memory_bytes / 2, SMALL_BYTES)


def _remark(job: JobState, device: Device, strays: list[tuple[int, Share]], owners: list[int]) -> Remark:
    heads = sorted((head for head, _ in strays), key=lambda head: (job.role(head).rank or 0, head))
    name, whose = (
        job.gpus.name(device),
        f"which is {job.gpus.who(owners)}'s" if owners else "which belongs to none of them",
    )
    sizes = sorted(share.memory_bytes for _, share in strays if share.memory_bytes is not None)
    known = len(sizes) == len(strays)
    what = between(size(sizes[0]), size(sizes[-1])) if known else "a context"
    verb = ("holds" if len(heads) == 1 else "each hold") if known else ("has" if len(heads) == 1 else "each have")
    return Remark(
        topic=TOPIC, summary=f"{job.gpus.who(heads)} {verb} {what} on {name}, {whose}",
        pids=tuple(heads), gpu_uuids=(device[0],),
        evidence=(*_together(job, device, sizes if known else []), *(_lines(job, head) for head in heads[:MOST_LINES])),
        advice=_ADVICE,
    )  # fmt: skip


def _together(job: JobState, device: Device, sizes: list[int]) -> Iterator[str]:
    gpu = job.gpus.by_uuid.get(device[0])
    if len(sizes) > 1 and gpu and gpu.memory_total_bytes and device[1] is None:
        yield f"together {size(sum(sizes))} of the {size(gpu.memory_total_bytes)} of {job.gpus.name(device)}"


def _lines(job: JobState, head: int) -> str:
    """The evidence line of a rank: its devices, and its environment's settings for them."""
    shares = [
        f"{size(share.memory_bytes) if share.memory_bytes is not None else 'a context'} on {job.gpus.name(share.device)}"
        for share in job.gpus.use[head]
    ]
    return f"{job.full_name(head)}: {', '.join(shares)}{job.gpus.environment(head)}"
