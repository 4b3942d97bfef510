"""Each process that receives CUDA memory takes some hundred MiB of the GPU for itself.

What it looks like: GPU memory use grows with the number of workers, although they only share the tensors of one process.
Why: every process that touches CUDA has a context of its own: kernel code, libraries and workspaces.  It is not a leak, and
not part of the shared tensors.
What to do: fewer processes on the GPU; let workers work on CPU tensors; CUDA_MODULE_LOADING=LAZY, which is the default of
CUDA 12.2 and newer, loads less code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus import Device, device_of
from mpmon.diagnosis.humanize import between, size
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-contexts"

FEWEST = 4
"""Receivers on one device; fewer are hardly worth a word."""

SMALL_BYTES = 1 << 30
"""A context without anything in it takes less."""

LEAST_BYTES = 1 << 30
"""All of them together."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each device."""
    receivers = {pid for pid, row in job.ipc.ground.shims.items() if row.alive and row.received}
    held: dict[Device, dict[int, int]] = defaultdict(dict)
    for row in job.gpus.contexts if len(receivers) >= FEWEST else ():
        if row.pid in receivers and row.memory_bytes is not None:
            held[device_of(row)][row.pid] = held[device_of(row)].get(row.pid, 0) + row.memory_bytes
    for device, sizes in held.items():
        small = {pid: held for pid, held in sizes.items() if held <= SMALL_BYTES}
        if len(small) >= FEWEST and sum(small.values()) >= LEAST_BYTES:
            yield _remark(job, device, small)


def _remark(job: JobState, device: Device, sizes: dict[int, int]) -> Remark:
    least, most = size(min(sizes.values())), size(max(sizes.values()))
    return Remark(
        topic=TOPIC, pids=tuple(sorted(sizes)), gpu_uuids=(device[0],),
        summary=f"{len(sizes)} processes that receive CUDA memory take {between(least, most)} each of {job.gpus.name(device)}, "
        f"{size(sum(sizes.values()))} together: a CUDA context per process, not shared tensors",
        evidence=("by the driver's count of each process; a context alone takes some hundred MiB",),
        advice=("Use fewer such processes, or CPU tensors in them: each process that touches CUDA has its own context.",),
    )  # fmt: skip
