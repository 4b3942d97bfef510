"""Devices that are busy without doing work: their kernels only wait, and so do all processes that could keep them busy.

An NCCL collective is a kernel that spins until every rank has joined it, and a thread that synchronizes with it burns CPU in
one line of Python. Both look like work. The difference: utilization at a fraction of the power, and a line that never
changes. That is no proof.  A kernel that takes minutes and uses a small part of the device looks the same, and on all ranks
at once if all do the same: the eigenvalues of large matrices, a recurrent network.  So this alone never makes a hang.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from mpmon.diagnosis.gpus.shares import is_named
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.state.thread_motions import ThreadMotions
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

_STILL = frozenset({Motion.NOT_SCHEDULED, Motion.POLLING, Motion.BUSY_LOOP})


class Spin(msgspec.Struct, frozen=True, gc=False):
    """A device whose kernels only wait."""

    gpu: Gpu
    heads: tuple[int, ...]
    """Ranks that keep it busy; without ranks, the processes with a context."""
    since: float
    """When the last of these stopped making progress, seconds since the epoch."""
    level: float | None
    """Power while it did work, watts; `None` if that was never observed."""


def spins(index: ThreadMotions) -> tuple[Spin, ...]:
    """One row per spinning device, of all devices with known values."""
    return tuple(spin for gpu in index.gpus.fresh if (spin := _spin(index, gpu)))


def all_spin(index: ThreadMotions, found: Iterable[Spin]) -> bool:
    """The devices of all ranks have been spinning for long: there is no visible rank that the others could wait for."""
    heads = {head for spin in found if index.now - spin.since >= GPU_STANDS_LONG_S for head in spin.heads}
    return len(index.gpus.ranks) > 1 and index.gpus.ranks <= heads


def _spin(index: ThreadMotions, gpu: Gpu) -> Spin | None:
    """The device is busy at low power, and no process that could keep it busy makes progress."""
    if (gpu.utilization_percent or 0.0) < GPU_BUSY_PERCENT:
        return None
    last = index.gpus.latest(gpu.uuid, GPU_READINGS, index.now - GPU_RECENT_S)
    busy = all((row.utilization_percent or 0.0) >= GPU_BUSY_PERCENT for row in last)
    heads = _heads(index, gpu) if busy and len(last) == GPU_READINGS else ()
    if not heads or not all(_is_still(index, head) for head in heads):
        return None
    since = max(index.stands_since((head, head)) for head in heads)
    if index.now - since < RUNNING_PATIENCE_S:
        return None
    level = _level(index, gpu, since)
    low = all(_is_low(row, level) for row in (*last, gpu))
    return Spin(gpu, heads, since, level) if low else None


def _heads(index: ThreadMotions, gpu: Gpu) -> tuple[int, ...]:
    """The processes that keep the device busy; empty if another process may be doing so."""
    rows = [row for device, found in index.gpus.on.items() if device[0] == gpu.uuid for row in found]
    busy = [row for row in rows if row.sm_percent is None or row.sm_percent > GPU_IDLE_SM_PERCENT]
    pids = tuple(dict.fromkeys(row.pid for row in busy))
    known = all(is_named(row) and row.pid in index.gpus.heads and index.is_alive(row.pid) for row in busy)
    return pids if known else ()


def _is_still(index: ThreadMotions, head: int) -> bool:
    """Neither the main thread nor any other Python thread that is not idle makes progress."""
    return all(index.motion(key) in _STILL for key in {(head, head), *index.working_threads(head)})


def _level(index: ThreadMotions, gpu: Gpu, since: float) -> float | None:
    """The device's power, watts, while it was busy and its ranks made progress."""
    before = index.gpus.readings(gpu.uuid, 0.0, since)
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
