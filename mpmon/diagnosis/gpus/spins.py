"""Devices that are busy and do not work: their kernels only wait, and so do all who could keep them busy.

A collective of NCCL is a kernel that spins until every rank has joined it, and whoever synchronizes with it burns its CPU in one
line of Python.  Both look like work.  What tells them from it: utilization at a fraction of the power, and a line that is
never left.
That is no proof.  A kernel that takes minutes and uses a small part of the device looks the same, on all ranks at the same time
where all do the same: the eigenvalues of large matrices, a recurrent network.  So nothing is called hung for this alone.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from mpmon.diagnosis.gpus.shares import is_named
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.thresholds import (
    GPU_BUSY_PERCENT,
    GPU_IDLE_SM_PERCENT,
    GPU_LEVEL_READINGS,
    GPU_LEVEL_SHARE,
    GPU_LIMIT_SHARE,
    GPU_READINGS,
    GPU_RECENT_S,
    GPU_SPIN_MEMORY_PERCENT,
    GPU_STANDS_LONG_S,
    GPU_WORKS_PERCENT,
    RUNNING_PATIENCE_S,
)
from mpmon.model import Gpu

if TYPE_CHECKING:
    from mpmon.diagnosis.case import Case

_STILL = frozenset({Motion.FROZEN, Motion.NAPPING, Motion.SPINNING})


class Spin(msgspec.Struct, frozen=True, gc=False):
    """A device whose kernels only wait."""

    gpu: Gpu
    heads: tuple[int, ...]
    """Who keeps it busy: ranks, or without any who else has a context."""
    since: float
    """When the last of these came to stand, seconds since the epoch."""
    level: float | None
    """Power while it worked, watts; `None` where it was never seen to."""


def spins(case: Case) -> tuple[Spin, ...]:
    """Of all devices whose values are known."""
    return tuple(spin for gpu in case.gpus.fresh if (spin := _spin(case, gpu)))


def all_spin(case: Case) -> bool:
    """For long, and on the devices of all ranks: no rank is seen for whom the others could wait."""
    heads = {head for spin in case.spins if case.now - spin.since >= GPU_STANDS_LONG_S for head in spin.heads}
    return len(case.gpus.ranks) > 1 and case.gpus.ranks <= heads


def _spin(case: Case, gpu: Gpu) -> Spin | None:
    """The device is busy at low power, and all who could keep it busy stand still."""
    if (gpu.utilization_percent or 0.0) < GPU_BUSY_PERCENT:
        return None
    last = case.gpus.latest(gpu.uuid, GPU_READINGS, case.now - GPU_RECENT_S)
    busy = all((row.utilization_percent or 0.0) >= GPU_BUSY_PERCENT for row in last)
    heads = _heads(case, gpu) if busy and len(last) == GPU_READINGS else ()
    if not heads or not all(_is_still(case, head) for head in heads):
        return None
    since = max(case.stands_since((head, head)) for head in heads)
    if case.now - since < RUNNING_PATIENCE_S:
        return None
    level = _level(case, gpu, since)
    low = all(_is_low(row, level) for row in (*last, gpu))
    return Spin(gpu, heads, since, level) if low else None


def _heads(case: Case, gpu: Gpu) -> tuple[int, ...]:
    """Who keeps it busy; empty if it may be somebody else."""
    rows = [row for device, found in case.gpus.on.items() if device[0] == gpu.uuid for row in found]
    busy = [row for row in rows if row.sm_percent is None or row.sm_percent > GPU_IDLE_SM_PERCENT]
    pids = tuple(dict.fromkeys(row.pid for row in busy))
    known = all(is_named(row) and row.pid in case.gpus.heads and case.is_alive(row.pid) for row in busy)
    return pids if known else ()


def _is_still(case: Case, head: int) -> bool:
    """Its main thread and all others of its Python threads that have something to do stand."""
    return all(case.motion(key) in _STILL for key in {(head, head), *case.working_threads(head)})


def _level(case: Case, gpu: Gpu, since: float) -> float | None:
    """Its power while its ranks moved and it was busy, watts."""
    before = case.gpus.readings(gpu.uuid, 0.0, since)
    watts = [
        row.power_watts for row in before
        if row.power_watts is not None and (row.utilization_percent or 0.0) >= GPU_WORKS_PERCENT
    ]  # fmt: skip
    return median(watts) if len(watts) >= GPU_LEVEL_READINGS else None


def _is_low(gpu: Gpu, level: float | None) -> bool:
    if gpu.power_watts is None:
        return False
    if level is not None:
        return gpu.power_watts <= GPU_LEVEL_SHARE * level
    memory = gpu.memory_utilization_percent
    if gpu.power_limit_watts is None or memory is None or memory > GPU_SPIN_MEMORY_PERCENT:
        return False
    return gpu.power_watts <= GPU_LIMIT_SHARE * gpu.power_limit_watts
