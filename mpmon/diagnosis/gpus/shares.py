"""How much of each device a process uses, alone and together with its workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mpmon.model import GpuProcess, Row

Device = tuple[str, int | None, int | None]
"""UUID of a GPU, GPU instance and compute instance (`None` without MIG): what CUDA sees as one device."""


class Share(Row, frozen=True, kw_only=True, omit_defaults=False):
    """What one process, or several together, use of one device."""

    gpu_uuid: str
    mig_instance: int | None = None
    compute_instance: int | None = None
    pids: tuple[int, ...]
    """Pids with a context there."""
    memory_bytes: int | None = None
    """`None` unless known for every one of them. Memory that two of them share by CUDA IPC may count twice."""
    sm_percent: float | None = None
    """Sum of their shares of the sample period; `None` unless known for every one of them."""
    reasons: dict[str, str]
    """Why a sum is `None`."""

    @property
    def device(self) -> Device:
        """The device it is on."""
        return (self.gpu_uuid, self.mig_instance, self.compute_instance)


def device_of(row: GpuProcess) -> Device:
    """The device that a context is on."""
    return (row.gpu_uuid, row.mig_instance, row.compute_instance)


def is_named(row: GpuProcess) -> bool:
    """The row's pid is valid in this pid namespace."""
    return "pid" not in row.reasons


def summed(device: Device, rows: Sequence[GpuProcess]) -> Share:
    """All that these processes use of that device; a sum with an unknown part is unknown."""
    gpu_uuid, mig_instance, compute_instance = device
    memory = [row.memory_bytes for row in rows if row.memory_bytes is not None]
    sm = [row.sm_percent for row in rows if row.sm_percent is not None]
    return Share(
        gpu_uuid=gpu_uuid, mig_instance=mig_instance, compute_instance=compute_instance,
        pids=tuple(dict.fromkeys(row.pid for row in rows)),
        memory_bytes=sum(memory) if len(memory) == len(rows) else None,
        sm_percent=sum(sm) if len(sm) == len(rows) else None,
        reasons=dict(_missing(rows)),
    )  # fmt: skip


def by_device(rows: Iterable[GpuProcess]) -> tuple[Share, ...]:
    """One share a device, in the order of the rows."""
    found: dict[Device, list[GpuProcess]] = defaultdict(list)
    for row in rows:
        found[device_of(row)].append(row)
    return tuple(summed(device, parts) for device, parts in found.items())


def branches(rows: Iterable[GpuProcess], parents: Mapping[int, int | None]) -> dict[int, tuple[Share, ...]]:
    """For every process with a context at or below it, what it and all its workers use together.

    `parents` is the job's tree: `{view.pid: view.parent for view in diagnosis.processes}`.
    """
    found: dict[int, list[GpuProcess]] = defaultdict(list)
    for row in rows:
        if is_named(row):
            for pid in lineage(row.pid, parents):
                found[pid].append(row)
    return {pid: by_device(parts) for pid, parts in found.items()}


def lineage(pid: int, parents: Mapping[int, int | None]) -> Iterator[int]:
    """A process of the job, the process it works for, and so on up to the root."""
    seen: set[int] = set()
    above: int | None = pid
    while above is not None and above in parents and above not in seen:
        seen.add(above)
        yield above
        above = parents[above]


def _missing(rows: Sequence[GpuProcess]) -> Iterator[tuple[str, str]]:
    """The first reason for each sum that is unknown."""
    for field in ("sm_percent", "memory_bytes"):
        for row in rows:
            if getattr(row, field) is None:
                yield field, f"pid {row.pid}: {row.reasons.get(field, 'not known')}"
                break
