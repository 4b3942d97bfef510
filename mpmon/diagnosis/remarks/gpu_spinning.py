"""A GPU looks busy and does not work: its kernels only wait.

What it looks like: nvidia-smi shows 100 % for ranks that have not moved for minutes, at a fraction of the power they drew
before.
Why: utilization says that a kernel ran, not that it did anything.  A collective of NCCL is a kernel that spins until every
rank has joined it; a rank that never does leaves all others busy for ever.
What to do: look for the rank that is elsewhere: its GPU is idle, or its line is another one; its peers are right to wait.
Judge progress by power, not by utilization.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import msgspec

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus.shares import is_named
from mpmon.diagnosis.knot import doing, stands_since
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.words import age, between
from mpmon.model import Gpu

TOPIC = "gpu-spinning"

BUSY_PERCENT = 90.0
WORKS_PERCENT = 50.0
"""A device that was busy for so much of the time while its rank moved was at work."""

STANDS_S = 7.0
"""A rank must have stood for so long."""

SHARE_OF_LEVEL, SHARE_OF_LIMIT = 0.7, 0.35
"""Power below these shares is low: of its own power while it worked; of its limit where it was never seen at work. Ranks
in a hung collective draw 14 to 25 % of the limit.
"""

SPINNING_MEMORY_PERCENT = 10.0
"""A kernel that waits hardly touches the device's memory."""

READINGS = 3
"""So many of the last must agree."""

LEVEL_READINGS = 10
"""So many make a level."""

RECENT_S = 30.0
"""How far back the last readings may lie."""

IDLE_SM_PERCENT = 10.0
"""A process with less than this is not the one that keeps the device busy."""

_ADVICE = (
    "Utilization only says that a kernel is there; one of NCCL spins until the last rank has joined the collective.",
    "Look for the rank whose GPU is idle, or that stands at another line.",
)

_STILL = frozenset({Motion.FROZEN, Motion.NAPPING, Motion.SPINNING})


class _Spin(msgspec.Struct, frozen=True, gc=False):
    """A device whose kernels only wait."""

    gpu: Gpu
    heads: tuple[int, ...]
    since: float
    level: float | None
    """Power while it worked; `None` where it was never seen to."""


def remarks(case: Case) -> Iterator[Remark]:
    """One for all devices that spin."""
    spins = [spin for gpu in case.gpus.fresh if (spin := _spin(case, gpu))]
    if not spins:
        return
    heads = list(dict.fromkeys(head for spin in spins for head in spin.heads))
    watts = sorted(spin.gpu.power_watts or 0.0 for spin in spins)
    percents = sorted(spin.gpu.utilization_percent or 0.0 for spin in spins)
    stand, seem = ("stands", "its GPU only spins") if len(heads) == 1 else ("stand", "their GPUs only spin")
    yield Remark(
        topic=TOPIC, pids=tuple(heads), gpu_uuids=tuple(spin.gpu.uuid for spin in spins), since=max(spin.since for spin in spins),
        summary=f"{case.gpus.who(heads)} {stand} still, and {seem}: "
        f"{between(f'{percents[0]:.0f} %', f'{percents[-1]:.0f} %')} busy at "
        f"{between(f'{watts[0]:.0f} W', f'{watts[-1]:.0f} W')}{_reserve(spins)}",
        evidence=(*(_words(case, spin) for spin in spins), *_others(case, heads)),
        advice=_ADVICE,
    )  # fmt: skip


def _spin(case: Case, gpu: Gpu) -> _Spin | None:
    """The device is busy at low power, and all who could keep it busy stand still."""
    if (gpu.utilization_percent or 0.0) < BUSY_PERCENT:
        return None
    last = case.gpus.latest(gpu.uuid, READINGS, case.now - RECENT_S)
    busy = all((row.utilization_percent or 0.0) >= BUSY_PERCENT for row in last)
    heads = _heads(case, gpu) if busy and len(last) == READINGS else ()
    if not heads or not all(_is_still(case, head) for head in heads):
        return None
    since = max(stands_since(case, (head, head)) for head in heads)
    if case.now - since < STANDS_S:
        return None
    level = _level(case, gpu, since)
    low = all(_is_low(row, level) for row in (*last, gpu))
    return _Spin(gpu, heads, since, level) if low else None


def _heads(case: Case, gpu: Gpu) -> tuple[int, ...]:
    """Who keeps it busy; empty if it may be somebody else."""
    rows = [row for device, found in case.gpus.on.items() if device[0] == gpu.uuid for row in found]
    busy = [row for row in rows if row.sm_percent is None or row.sm_percent > IDLE_SM_PERCENT]
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
        if row.power_watts is not None and (row.utilization_percent or 0.0) >= WORKS_PERCENT
    ]  # fmt: skip
    return median(watts) if len(watts) >= LEVEL_READINGS else None


def _is_low(gpu: Gpu, level: float | None) -> bool:
    if gpu.power_watts is None:
        return False
    if level is not None:
        return gpu.power_watts <= SHARE_OF_LEVEL * level
    memory = gpu.memory_utilization_percent
    if gpu.power_limit_watts is None or memory is None or memory > SPINNING_MEMORY_PERCENT:
        return False
    return gpu.power_watts <= SHARE_OF_LIMIT * gpu.power_limit_watts


def _reserve(spins: list[_Spin]) -> str:
    seen = any(spin.level is not None for spin in spins)
    return "" if seen else ", as far as can be told of a device that was never seen at work"


def _words(case: Case, spin: _Spin) -> str:
    gpu = spin.gpu
    limit = f" of {gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else ""
    before = (
        f"{spin.level:.0f} W while it worked" if spin.level is not None
        else f"its memory busy for {gpu.memory_utilization_percent or 0:.0f} %"
    )  # fmt: skip
    what = doing(case, (spin.heads[0], spin.heads[0]))
    return (
        f"GPU {gpu.index}: {gpu.utilization_percent or 0:.0f} % at {gpu.power_watts or 0:.0f} W{limit}, {before}; "
        f"{case.gpus.who(spin.heads)}: {what}, for {age(case.now - spin.since)}"
    )


def _others(case: Case, heads: list[int]) -> Iterator[str]:
    """Ranks whose device does not spin, and shows it."""
    for head in sorted(case.gpus.ranks - set(heads)):
        device = case.gpus.own.get(head)
        gpu = next((gpu for gpu in case.gpus.fresh if device and gpu.uuid == device[0]), None)
        if gpu and gpu.utilization_percent is not None and gpu.utilization_percent < WORKS_PERCENT:
            yield (
                f"{case.gpus.who([head])} is not among them: GPU {gpu.index} is busy for {gpu.utilization_percent:.0f} %, "
                f"and the rank is {doing(case, (head, head))}"
            )
