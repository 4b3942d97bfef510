"""Which machine of many differs from the others, by what each reports about itself as a whole.

A machine is compared with the median of the others, which one or two odd ones do not move. A figure differs if it is

- bad by itself: beyond a level below which it costs a step of the job nothing noticeable;
- several times as bad as the others': a cluster that is loaded everywhere has no slow machine;
- further away than the others are from each other, by `FIGURE_DEVIATIONS` median deviations: scattered figures single
  out no machine.

At least three machines must report the figure. With two, nobody knows which one is right, so only figures that are bad on
any machine are reported. Load, watts and utilization differ between machines that do different work, as stages of a
pipeline do; they explain a machine that the job is known to wait for, but are no evidence against any other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from statistics import median
from typing import Generic, NamedTuple, TypeVar

import msgspec

from mpmon.diagnosis.thresholds import FIGURE_DEVIATIONS, FIGURE_LEAST_S, FIGURE_MACHINES
from mpmon.model import Figures

K = TypeVar("K", bound=Hashable)


class Kind(NamedTuple):
    """A figure, and the level from which it is bad."""

    name: str
    """The name of the field in `Figures`."""
    words: str
    """What is bad, with a placeholder for the number."""
    level: float
    """Bad from this value up; for a figure that is bad when low, from this value down."""
    times: float
    """It must also be at least this many times the median of the others; for a low one, the median divided by this."""
    is_low: bool = False
    alone: bool = False
    """The figure costs time on any machine, so no comparison with others is needed."""
    accuses: bool = True
    """The figure is bad whatever work the machine does."""
    advice: str = ""


# fmt: off
KINDS = (
    # A tenth of the CPU time gone makes each step that needs the CPU a tenth longer, and all ranks wait for the slowest.
    Kind("steal_percent", "{} % of its CPU time goes to other virtual machines", 10.0, 3.0, alone=True,
         advice="Move that virtual machine, or ask for dedicated CPUs: its host is overcommitted."),
    Kind("throttled_percent", "its CPU quota runs out in {} % of the periods", 10.0, 3.0, alone=True,
         advice="Raise the CPU limit of the job there (cpu.max, resources.limits.cpu), or start fewer workers."),
    # `some` of the kernel's PSI: one task at least stood still so long.
    Kind("memory_stall_percent", "tasks wait for memory {} % of the time", 10.0, 3.0, alone=True,
         advice="Check what else uses memory there, and the job's memory limit: pages are constantly read and written."),
    Kind("gpus_slowed", "{} of its GPUs are slowed down by heat or hardware", 1.0, 2.0, alone=True,
         advice="Check the cooling and the power supply there: mpmon explain gpu-throttled"),
    # GPUs of one kind differ by some 3 % from device to device; a tenth is not chance.
    Kind("gpu_clock_percent", "its slowest GPU runs at {} % of its clock", 90.0, 1.1, is_low=True,
         advice="Compare the limits of clock and power: nvidia-smi -q -d CLOCK,POWER"),
    # A sound cable has no errors at all.
    Kind("nic_errors_per_s", "its network devices count {} errors a second", 1.0, 10.0, alone=True,
         advice="Check the cable, port and driver of that network device: ip -s link, ethtool -S DEVICE"),
    # Some are dropped everywhere: packets of protocols that nothing there listens to.
    Kind("nic_drops_per_s", "its network devices drop {} packets a second", 10.0, 10.0,
         advice="Check the queues and the driver of that network device: ip -s link, ethtool -S DEVICE"),
    # TCP over a sound network retransmits a few in a thousand, and more if the reader has no CPU time.
    Kind("retransmit_percent", "{} % of its TCP segments are retransmitted", 2.0, 5.0,
         advice="Check the network path to that machine: switch port, cable, MTU, a saturated link."),
    Kind("load_per_cpu", "its load is {} per CPU", 1.2, 2.0, accuses=False,
         advice="Check what else runs there: top"),
    Kind("gpu_utilization_percent", "its GPUs are only {} % busy", 80.0, 1.5, is_low=True, accuses=False,
         advice="Check what its ranks do in between: data, a checkpoint, the CPU."),
    Kind("gpu_power_watts", "its GPUs draw only {} W", 10_000.0, 1.5, is_low=True, accuses=False,
         advice="Compare the limits of clock and power: nvidia-smi -q -d CLOCK,POWER"),
)
# fmt: on
"""In the order they are reported. CPU and memory first: their shortage slows down everything else."""


class Difference(msgspec.Struct, Generic[K], frozen=True):
    """A machine that differs in a figure."""

    machine: K
    kind: Kind
    value: float
    usual: float | None
    """The median of the others; `None` if there are too few."""
    others: int = 0
    """Number of machines that the median is of."""


def differences(rows: Mapping[K, Figures]) -> Iterator[Difference[K]]:
    """The differences of all machines, by figure and in the order of the machines."""
    for kind in KINDS:
        known = {key: value for key, row in rows.items() if (value := _value(row, kind)) is not None}
        if not any(_is_bad(kind, value) for value in known.values()):
            continue
        if len(known) >= FIGURE_MACHINES:
            found = list(_odd(kind, known))
            # If as many differ as do not, nobody knows which are the odd ones.
            yield from found if 2 * len(found) < len(known) else ()
        elif kind.alone:
            bad = (key for key, value in known.items() if _is_bad(kind, value))
            yield from (Difference(key, kind, known[key], None) for key in bad)


def _value(row: Figures, kind: Kind) -> float | None:
    return getattr(row, kind.name) if row.over_s >= FIGURE_LEAST_S else None


def _is_bad(kind: Kind, value: float) -> bool:
    return value <= kind.level if kind.is_low else value >= kind.level


def _odd(kind: Kind, known: Mapping[K, float]) -> Iterator[Difference[K]]:
    ordered = sorted(known.values())
    middle = median(ordered)
    spread = median(abs(value - middle) for value in ordered)
    for key, value in known.items():
        if _is_bad(kind, value):
            usual = _median_without(ordered, value)
            low, high = (value, usual) if kind.is_low else (usual, value)
            if high >= kind.times * low and high - low > FIGURE_DEVIATIONS * spread:
                yield Difference(key, kind, value, usual, len(known) - 1)


def _median_without(ordered: list[float], value: float) -> float:
    """The median of all but one row with that value."""
    gone, count = bisect_left(ordered, value), len(ordered) - 1

    def at(place: int) -> float:
        return ordered[place + (place >= gone)]

    return at(count // 2) if count % 2 else (at(count // 2 - 1) + at(count // 2)) / 2
