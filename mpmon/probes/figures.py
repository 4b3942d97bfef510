"""Health figures of a machine over the last seconds: what can make one machine of many slow.

Counters that the kernel keeps anyway, half a dozen small files a round, none of which can hang: proc_stat(5), proc_loadavg(5),
/proc/pressure (the kernel's accounting/psi), proc_net(5), cpu.stat of control groups (admin-guide/cgroup-v2).
What GPUs say is in the snapshot already.

All figures cover the last `WINDOW_S`, not just the time since the previous round: a burst does not make a slow machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

import msgspec

from mpmon.model import SLOWDOWNS, Figures, Gpu, Snapshot
from mpmon.probes import cgroups
from mpmon.probes.files import Proc

WINDOW_S = 30.0

MOST_GROUPS = 64
"""Most control groups read, with their ancestors."""

WORKS_PERCENT = 20.0
"""A device below this utilization has an idle clock."""

LEAST_SEGMENTS = 100
"""Least number of TCP segments sent in the window: with fewer, a single retransmission would be a high percentage."""

FIRST = "two looks are needed"
NO_GPU = "no process of the job is known to use a GPU"
NO_GROUPS = "no control group of the job has a CPU quota"


class _Sample(msgspec.Struct, frozen=True, gc=False):
    """One reading."""

    at: float
    counters: Mapping[str, float]
    quotas: Mapping[str, tuple[int, int]]
    """By the directory of a control group: periods, and how many of them were throttled."""
    gpus: tuple[Gpu, ...]


class FiguresProbe:
    """Fills the table `figures`; it comes after the probe of GPUs."""

    def __init__(self, proc: Proc, cpus: int) -> None:
        self._proc = proc
        self._cpus = cpus
        self._hierarchy = cgroups.hierarchy(proc, "cpu")
        self._samples: deque[_Sample] = deque()

    def begin(self) -> None:
        """Needs no preparation."""

    def add(self, snapshot: Snapshot) -> Snapshot:
        """With one row, of this machine."""
        why: dict[str, str] = {}
        sample = self._read(snapshot, why)
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[1].at <= sample.at - WINDOW_S:
            self._samples.popleft()
        return msgspec.structs.replace(snapshot, figures=(self._figures(snapshot, why),))

    def close(self) -> None:
        """Nothing is kept."""

    # What is read

    def _read(self, snapshot: Snapshot, why: dict[str, str]) -> _Sample:
        counters: dict[str, float] = {}
        for names, read in (
            (("load_per_cpu",), self._load),
            (("steal_percent",), self._times),
            (("memory_stall_percent",), self._stalls),
            (("nic_errors_per_s", "nic_drops_per_s"), self._devices),
            (("retransmit_percent",), lambda: self._segments(snapshot.root_pid)),
        ):
            try:
                counters.update(read())
            except (OSError, ValueError, IndexError) as problem:
                reason = getattr(problem, "strerror", None) or "it has an unknown format"
                why.update(dict.fromkeys(names, reason.lower()))
        return _Sample(snapshot.taken_at, counters, self._quotas(snapshot), _own(snapshot))

    def _load(self) -> Iterator[tuple[str, float]]:
        yield "load", float(self._proc.read("loadavg").split()[0])

    def _times(self) -> Iterator[tuple[str, float]]:
        """Guest time is part of user time, so it is not added again."""
        times = [int(word) for word in self._proc.read("stat").partition(b"\n")[0].split()[1:9]]
        yield "steal", times[7]
        yield "times", sum(times)

    def _stalls(self) -> Iterator[tuple[str, float]]:
        some = self._proc.text("pressure", "memory").partition("\n")[0]
        yield "stall_us", int(some.rpartition("total=")[2])

    def _devices(self) -> Iterator[tuple[str, float]]:
        rows = [line.partition(":") for line in self._proc.text("net", "dev").splitlines()[2:]]
        fields = [list(map(int, said.split())) for name, _, said in rows if name.strip() != "lo"]
        yield "errors", sum(row[2] + row[10] for row in fields)
        yield "drops", sum(row[3] + row[11] for row in fields)

    def _segments(self, root: int) -> Iterator[tuple[str, float]]:
        lines = [line.split() for line in self._proc.text(root, "net", "snmp").splitlines() if line.startswith("Tcp:")]
        told = dict(zip(lines[0][1:], map(int, lines[1][1:]), strict=True))
        yield "sent", told.get("OutSegs", 0)
        yield "again", told.get("RetransSegs", 0)

    def _quotas(self, snapshot: Snapshot) -> dict[str, tuple[int, int]]:
        """Groups without a quota count no periods."""
        if self._hierarchy is None:
            return {}
        paths = sorted({row.cgroup for row in snapshot.processes if row.cgroup})[:MOST_GROUPS]
        folders = {
            each for path in paths if (folder := self._hierarchy.directory(path))
            for each in self._hierarchy.upwards(folder)
        }  # fmt: skip
        return {folder: found for folder in sorted(folders) if (found := self._quota(folder))}

    def _quota(self, folder: str) -> tuple[int, int] | None:
        try:
            text = self._proc.reread(f"{folder}/cpu.stat")
        except OSError:
            return None
        periods, throttled = (cgroups.counter(text, name) for name in (b"nr_periods", b"nr_throttled"))
        return (periods, throttled) if periods and throttled is not None else None

    # What follows from the readings

    def _figures(self, snapshot: Snapshot, why: dict[str, str]) -> Figures:
        old, new = self._samples[0], self._samples[-1]
        seconds = new.at - old.at
        found: dict[str, float | None] = {
            "load_per_cpu": _ratio(new.counters.get("load"), float(self._cpus)),
            **(_rates(old.counters, new.counters, seconds, why) if seconds > 0 else {}),
        }
        throttled = [
            _ratio(100.0 * (new.quotas[folder][1] - old.quotas[folder][1]), new.quotas[folder][0] - old.quotas[folder][0])
            for folder in new.quotas.keys() & old.quotas.keys()
        ]  # fmt: skip
        found["throttled_percent"] = max(filter(None, throttled), default=0.0 if new.quotas and seconds > 0 else None)
        if not new.quotas:
            why["throttled_percent"] = NO_GROUPS
        found.update(self._gpus(why))
        rounded = {name: None if value is None else round(value, 2) for name, value in found.items()}
        known = {name: value for name, value in rounded.items() if value is not None}
        row = msgspec.structs.replace(Figures(host=snapshot.host, over_s=round(seconds, 1)), **known)
        missing = [name for name in FIGURES if getattr(row, name) is None]
        return msgspec.structs.replace(row, reasons={name: why.get(name, FIRST) for name in missing})

    def _gpus(self, why: dict[str, str]) -> dict[str, float | None]:
        """Means over the readings of each device of the job."""
        readings: dict[str, dict[float, Gpu]] = {}
        for sample in self._samples:
            for gpu in sample.gpus:
                readings.setdefault(gpu.uuid, {})[gpu.read_at] = gpu
        devices = [list(rows.values()) for rows in readings.values()]
        clocks = [clock for rows in devices if (clock := _mean(rows, _clock)) is not None]
        found: dict[str, float | None] = {
            "gpus_slowed": float(sum(map(_is_slowed, devices))) if devices else None,
            "gpu_clock_percent": min(clocks, default=None),
            "gpu_utilization_percent": _mean_of([_mean(rows, lambda gpu: gpu.utilization_percent) for rows in devices]),
            "gpu_power_watts": _mean_of([_mean(rows, lambda gpu: gpu.power_watts) for rows in devices]),
        }
        why.update(dict.fromkeys(found, "the driver does not say, or they are idle" if devices else NO_GPU))
        return found


FIGURES = tuple(
    field.name for field in msgspec.structs.fields(Figures) if field.name not in ("host", "over_s", "reasons")
)
"""The names of all figures."""


def _rates(
    old: Mapping[str, float], new: Mapping[str, float], seconds: float, why: dict[str, str]
) -> dict[str, float | None]:
    """How much each counter grew; unknown if it decreased, as when a device is removed."""

    def grown(name: str) -> float | None:
        if name not in old or name not in new or new[name] < old[name]:
            return None
        return new[name] - old[name]

    sent = grown("sent")
    if sent is not None and sent < LEAST_SEGMENTS:
        why["retransmit_percent"] = "hardly anything was sent"
        sent = None
    return {
        "steal_percent": _ratio(grown("steal"), grown("times"), 100.0),
        "memory_stall_percent": _ratio(grown("stall_us"), seconds, 1e-4),
        "nic_errors_per_s": _ratio(grown("errors"), seconds),
        "nic_drops_per_s": _ratio(grown("drops"), seconds),
        "retransmit_percent": _ratio(grown("again"), sent, 100.0),
    }


def _ratio(part: float | None, whole: float | None, times: float = 1.0) -> float | None:
    return None if part is None or not whole or whole < 0 or part < 0 else part * times / whole


def _own(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """The responding devices that the job uses."""
    pids = {row.pid for row in snapshot.processes}
    used = {row.gpu_uuid for row in snapshot.gpu_processes if row.pid in pids}
    return tuple(gpu for gpu in snapshot.gpus if gpu.uuid in used and gpu.problem is None)


def _clock(gpu: Gpu) -> float | None:
    """Percent of its maximum clock, while it works."""
    if (gpu.utilization_percent or 0.0) < WORKS_PERCENT or gpu.sm_clock_mhz is None:
        return None
    return _ratio(float(gpu.sm_clock_mhz), gpu.sm_clock_max_mhz, 100.0)


def _is_slowed(readings: list[Gpu]) -> bool:
    slowed = [
        any(word in said.lower() for said in gpu.clock_event_reasons or () for word in SLOWDOWNS) for gpu in readings
    ]
    return 2 * sum(slowed) > len(slowed)


def _mean(readings: list[Gpu], value: Callable[[Gpu], float | None]) -> float | None:
    return _mean_of(list(map(value, readings)))


def _mean_of(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
