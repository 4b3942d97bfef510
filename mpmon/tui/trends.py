"""Histories on one time axis: means over equal steps of time, the same steps for every GPU and every process.

A value belongs to the moment it was read, and CPU time to the middle of the rounds between which it was used.  So a device
whose driver does not answer has a gap, and no flat line.  Means are kept, and each round adds only what it brought.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mpmon.tui.gauges import level, sparkline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mpmon.diagnosis.findings import TrendPoint
    from mpmon.model import Gpu, Process

STEPS_S = (1, 2, 5, 10, 20, 30, 60)
"""How much time a character may stand for."""

SPAN_S = 120
"""How far back a history goes at least, once so much was seen; before that it is as short as what was."""

ROUNDS_A_STEP = 1.5
"""At least so many rounds fall into a step on average: a late one leaves no gap."""

LATE_S = 5.0
"""The axis ends at the newest value, but not later than this before now."""


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


class Track(NamedTuple):
    """One thing of a GPU that has a history."""

    title: str
    percent: Callable[[Gpu], float | None]
    style: str


def _utilization(gpu: Gpu) -> float | None:
    return gpu.utilization_percent


def _power(gpu: Gpu) -> float | None:
    return _share(gpu.power_watts, gpu.power_limit_watts)


def _memory(gpu: Gpu) -> float | None:
    return _share(gpu.memory_used_bytes, gpu.memory_total_bytes)


TRACKS: tuple[Track, ...] = (
    Track("util", _utilization, "load"),
    Track("power", _power, "power"),
    Track("memory", _memory, "memory"),
)
"""In the order in which they are given room; after them comes the CPU of the process that uses the GPU."""


def step_for(trend: tuple[TrendPoint, ...], width: int) -> int:
    """Seconds a character stands for, where a history has so many characters."""
    rounds = len(trend) - 1
    seen_s = trend[-1].taken_at - trend[0].taken_at if rounds > 0 else 0.0
    shortest = ROUNDS_A_STEP * seen_s / rounds if rounds > 0 else 0.0
    fitting = (step for step in STEPS_S if step >= shortest and step * width >= min(SPAN_S, seen_s))
    return next(fitting, STEPS_S[-1])


class _Curve:
    """Means by number of the step, counted from the epoch."""

    def __init__(self) -> None:
        self._levels: dict[int, int] = {}
        self._drawn: tuple[range, str] | None = None
        """Of which steps it was drawn, until one of them has another level."""
        self._sums: dict[int, tuple[float, int]] = {}

    def add(self, step: int, percent: float, kept: int) -> None:
        """One value, and of the oldest steps no more than are kept."""
        total, count = self._sums.get(step, (0.0, 0))
        self._sums[step] = (total + percent, count + 1)
        now = level((total + percent) / (count + 1))
        if self._levels.get(step) == now:
            return
        self._levels[step] = now
        self._drawn = None
        if len(self._levels) > 2 * kept:
            for old in sorted(self._levels)[:-kept]:
                del self._levels[old], self._sums[old]

    def over(self, steps: range) -> str:
        """Drawn for these steps."""
        if self._drawn is None or self._drawn[0] != steps:
            self._drawn = (steps, sparkline(tuple(map(self._levels.get, steps))))
        return self._drawn[1]


class Trends:
    """Remembers the means of the last steps."""

    def __init__(self) -> None:
        self._step = 0
        self._width = 0
        self._last: TrendPoint | None = None
        self._newest = 0.0
        self._curves: defaultdict[tuple[str, str], _Curve] = defaultdict(_Curve)
        self._cpu: dict[int, tuple[int, dict[int, float]]] = {}
        """By step: how many rounds fell into it, and of those who ran in them the sum of their percents."""
        self._ran: set[int] = set()
        """Who is named in any of them."""
        self._idle = ""
        """The history of those who are not."""

    def take(self, trend: tuple[TrendPoint, ...], step: int, width: int) -> None:
        """Adds what is new; another step or width begins anew."""
        if (step, width) != (self._step, self._width):
            self._step, self._width, self._last = step, width, None
        new = list(self._unseen(trend))
        if len(new) == len(trend):
            self._curves.clear()
            self._cpu.clear()
            self._ran.clear()
            self._newest, self._last = 0.0, None
        for moment in reversed(new):
            self._add_gpus(moment)
            if self._last is not None:
                self._add_cpu(self._last, moment)
            self._last = moment
        self._idle = sparkline(tuple(0 if step in self._cpu else None for step in self._steps))

    @property
    def span_s(self) -> int:
        """How far back a history goes."""
        return self._step * self._width

    @property
    def _steps(self) -> range:
        """Those that are shown, the newest last."""
        last = int(self._newest // self._step) if self._step else 0
        return range(last - self._width + 1, last + 1)

    def history(self, uuid: str, track: Track) -> str:
        """The history of one GPU, the newest at the right."""
        return self._curves[uuid, track.title].over(self._steps)

    def cpu(self, process: Process) -> str:
        """How much of one core a process used; more than one core looks like one. A gap from before it began."""
        steps = self._steps
        if process.pid not in self._ran and process.start_time <= steps[0] * self._step:
            return self._idle
        pid, began, found = process.pid, process.start_time / self._step, map(self._cpu.get, steps)
        return sparkline(
            tuple(
                level(known[1].get(pid, 0.0) / known[0]) if known and began <= step else None
                for step, known in zip(steps, found, strict=True)
            )
        )

    def _unseen(self, trend: tuple[TrendPoint, ...]) -> Iterator[TrendPoint]:
        """Moments since the last one, the newest first; all of them if that one is no longer there."""
        for moment in reversed(trend):
            if moment is self._last:
                return
            yield moment

    def _add_gpus(self, moment: TrendPoint) -> None:
        self._newest = max(self._newest, moment.taken_at - LATE_S)
        for gpu in moment.gpus:
            read_at = gpu.read_at or moment.taken_at
            self._newest = max(self._newest, read_at)
            for track in TRACKS:
                percent = track.percent(gpu)
                if percent is not None:
                    self._curves[gpu.uuid, track.title].add(int(read_at // self._step), percent, self._width)

    def _add_cpu(self, before: TrendPoint, moment: TrendPoint) -> None:
        """What each used between two rounds: those that are not named did not run."""
        middle = (before.taken_at + moment.taken_at) / 2
        if not moment.gpus:
            self._newest = max(self._newest, middle)
        step = int(middle // self._step)
        rounds, used = self._cpu.get(step, (0, {}))
        for pid, percent in moment.cpu.items():
            used[pid] = used.get(pid, 0.0) + percent
        self._ran.update(moment.cpu)
        self._cpu[step] = (rounds + 1, used)
        if len(self._cpu) > 2 * self._width:
            for old in sorted(self._cpu)[: -self._width]:
                del self._cpu[old]
            self._ran = {pid for _, used in self._cpu.values() for pid in used}
