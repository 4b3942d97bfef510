"""Utilization and power of a GPU that works, of one that only spins, and of one that rests.

The bounds are those of the remarks *spinning* and *starved*.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from mpmon.diagnosis.remarks import gpu_starved
from mpmon.diagnosis.thresholds import (
    GPU_BUSY_PERCENT,
    GPU_LEVEL_SHARE,
    GPU_LIMIT_SHARE,
    GPU_SPIN_MEMORY_PERCENT,
    GPU_WORKS_PERCENT,
)
from mpmon.doctor.gpu.case import Case, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.driver import asked
from mpmon.doctor.gpu.memory import Measured
from mpmon.doctor.gpu.talking import Program, Silent
from mpmon.model import Gpu

SETTLES_S, READ_S, PAUSE_S = 3.0, 5.0, 0.5
"""The driver's figures are means over up to a second; power follows slowly."""
WHILE = "60"
"""Seconds, an upper bound: the next command ends it."""
OTHERS_PERCENT = 5.0
"""A device busier than this before the case starts is in use by others."""


@dataclass(frozen=True)
class Level:
    """Medians of the driver's figures in the meantime."""

    utilization: float
    memory: float
    watts: float

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.utilization:.0f} % busy, memory {self.memory:.0f} %, {self.watts:.0f} W"


def levels(world: World) -> Seen:
    """Each of the three in turn, in one process."""
    try:
        with Program("mpmon.doctor.gpu.programs.works") as program:
            uuid = Measured(world).listed(program.hear()["pid"]).gpu_uuid
            rest = _level(world, uuid)
            if rest.utilization > OTHERS_PERCENT:
                raise NotHere("another process keeps the GPU busy")
            program.order("work", WHILE)
            work = _level(world, uuid)
            program.order("spin", WHILE)
            spin = _level(world, uuid)
            limit = _limit(world, uuid)
    except Silent as problem:
        raise Wrong("a process that computes on the GPU", "it failed", str(problem)) from problem
    _judge(rest, work, spin, limit)
    figures = {
        f"{name} {what}": value
        for name, level in (("rest", rest), ("work", work), ("spin", spin))
        for what, value in (("percent", level.utilization), ("memory percent", level.memory), ("watts", level.watts))
    }
    words = f"rests: {rest.words}; works: {work.words}; spins: {spin.words}; limit {limit:.0f} W"
    return Seen(words, {**figures, "limit watts": limit})


def _judge(rest: Level, work: Level, spin: Level, limit: float) -> None:
    """Raises: Wrong."""
    low = min(GPU_LEVEL_SHARE * work.watts, GPU_LIMIT_SHARE * limit)
    bounds: Sequence[tuple[str, Callable[[], bool], Level]] = (
        (f"less than {gpu_starved.LOW_PERCENT:g} % at rest", lambda: rest.utilization < gpu_starved.LOW_PERCENT, rest),
        (f"{GPU_WORKS_PERCENT:g} % or more at work", lambda: work.utilization >= GPU_WORKS_PERCENT, work),
        (f"{GPU_BUSY_PERCENT:g} % or more in a spin", lambda: spin.utilization >= GPU_BUSY_PERCENT, spin),
        (f"at most {low:.0f} W in a spin", lambda: spin.watts <= low, spin),
        (f"memory at most {GPU_SPIN_MEMORY_PERCENT:g} % busy in a spin",
         lambda: spin.memory <= GPU_SPIN_MEMORY_PERCENT, spin),
    )  # fmt: skip
    for expected, holds, seen in bounds:
        if not holds():
            raise Wrong(expected, f"{seen.words}; at work {work.words}; limit {limit:.0f} W")


def _level(world: World, uuid: str) -> Level:
    time.sleep(SETTLES_S)
    read: list[Gpu] = []
    until = time.monotonic() + READ_S
    while not read or time.monotonic() < until:
        read += [gpu for gpu in asked(world).gpus if gpu.uuid == uuid]
        time.sleep(PAUSE_S)
    return Level(
        _median([gpu.utilization_percent for gpu in read]), _median([gpu.memory_utilization_percent for gpu in read]),
        _median([gpu.power_watts for gpu in read]),
    )  # fmt: skip


def _median(values: Sequence[float | None]) -> float:
    """Raises: NotHere."""
    known = [value for value in values if value is not None]
    if not known:
        raise NotHere("this GPU does not report utilization or power, as with MIG")
    return median(known)


def _limit(world: World, uuid: str) -> float:
    return _median([gpu.power_limit_watts for gpu in asked(world).gpus if gpu.uuid == uuid])


CASES: Sequence[Case] = (
    Case(
        "work-spin-rest", "Utilization and power tell work, spinning and rest apart, by the bounds of gpu-spinning and "
        "gpu-starved.", levels, frozenset({"memory", "torch", "work"}),
    ),
)  # fmt: skip
