"""Sender and receiver count GPUs differently.

What it looks like: a received tensor is on a different GPU than intended, or "invalid device ordinal", or wrong data.
Why: a message names its GPU by number (cuda:0), and each side counts by its own CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
What to do: give all processes that share CUDA memory the same CUDA_VISIBLE_DEVICES, and choose with torch.cuda.set_device.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus import visible
from mpmon.model import ExportRecord

TOPIC = "cuda-device-order"

Difference = tuple[int, int, int, str, str]
"""Producer, receiver, number of the device, and what that is for each of them."""


def remarks(case: Case) -> Iterator[Remark]:
    """One for each two processes, by their environments at their starts."""
    if not case.snapshot.gpus:
        return
    found = dict.fromkeys(each for record in case.snapshot.exports for each in _differences(case, record))
    for producer, receiver, device, one, other in found:
        ground = case.ipc.ground
        yield Remark(
            topic=TOPIC, pids=(producer, receiver), gpu_uuids=(one, other),
            summary=f"cuda:{device} is {_gpu(case, one)} in {ground.who(producer)} and {_gpu(case, other)} in "
            f"{ground.who(receiver)}, which receives CUDA memory from it",
            evidence=tuple(f"pid {pid}{case.gpus.environment(pid)}" for pid in (producer, receiver)),
            advice=("Give both the same CUDA_VISIBLE_DEVICES, and choose the device with torch.cuda.set_device.",),
        )  # fmt: skip


def _differences(case: Case, record: ExportRecord) -> Iterator[Difference]:
    takers = case.ipc.ground.received.get((record.file, record.slot), ())
    one = _uuid(case, record.pid, record.device)
    for pid in dict.fromkeys(row.pid for row in takers):
        other = _uuid(case, pid, record.device)
        if one and other and one != other:
            yield record.pid, pid, record.device, one, other


def _uuid(case: Case, pid: int, device: int) -> str | None:
    process = case.processes.get(pid)
    return visible(process, case.snapshot.gpus, case.snapshot.mig_instances).uuid(device) if process else None


def _gpu(case: Case, uuid: str) -> str:
    gpu = case.gpus.by_uuid.get(uuid)
    return f"GPU {gpu.index}" if gpu else uuid
