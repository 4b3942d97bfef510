"""The processes that use a device: the driver's three lists merged, and how busy each process keeps it.

The layout of an entry differs between versions of the call, and between drivers of one version.  So a list is accepted if every
pid is plausible and all memory fits into the device; else older versions are tried too, and the best one is used.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from mpmon.model import GpuProcess
from mpmon.probes.nvml.calls import NO_LONG_NUMBER, NO_NUMBER, Caller, Handle, NoValue
from mpmon.probes.nvml.fields import Missing, percent
from mpmon.probes.nvml.words import FUNCTION_NOT_FOUND, GARBLED, INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, field_words

LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}

LAYOUTS: dict[str, struct.Struct] = {
    "_v3": struct.Struct("<I4xQII"),
    "_v2": struct.Struct("<I4xQII"),
    "": struct.Struct("<I4xQ"),
}
"""nvmlProcessInfo_t by version of the call: pid, memory, GPU instance, compute instance."""

LARGEST_ENTRY = 32
"""Bytes of a v3 entry in drivers 535 up to 535.86, which add confidential computing's protected memory: buffers must fit it."""

FIRST_ROOM, TRIES = 32, 4
"""Initial capacity in entries, and how often a call is tried while a list outgrows its buffer."""

SAMPLE = struct.Struct("<I4xQIIII")
"""nvmlProcessUtilizationSample_t: pid, time in microseconds since the epoch, shares of SM, memory, encoder, decoder."""

SAMPLE_ROOM = 128

STALE_S, QUIET_S = 10.0, 2.0
"""Largest age at which a sample counts as load: if the driver has just reported it, or has reported nothing newer."""

AHEAD_US = 1_000_000
"""A sample from further in the future is garbage."""

NO_MEMORY = "the driver does not tell the memory of this process"
TOO_MUCH_MEMORY = "the driver says more than the GPU has"


class Entry(NamedTuple):
    """One line of one of the driver's lists."""

    pid: int
    memory: int
    gpu_instance: int = NO_NUMBER
    compute_instance: int = NO_NUMBER


class Buffer:
    """Buffer for an answer of unknown length, one for each device: an abandoned call may still write into it."""

    def __init__(self, room: int, entry_bytes: int) -> None:
        self._entry_bytes = entry_bytes
        self._make(room)

    def fill(self, ask: Callable[[object, object], int]) -> int:
        """Call `ask` with count and buffer until the buffer is large enough; returns the count.

        Raises:
            NoValue: an error, or it is never large enough.
        """
        for _ in range(TRIES):
            count = ctypes.c_uint32(self._room)
            code = ask(ctypes.byref(count), self._bytes)
            if code == SUCCESS:
                return min(count.value, self._room)
            if code != INSUFFICIENT_SIZE:
                raise NoValue(field_words(code), code)
            self._make(count.value * 2 + 5)
        raise NoValue(field_words(INSUFFICIENT_SIZE), INSUFFICIENT_SIZE)

    def entries(self, layout: struct.Struct, count: int) -> Iterator[tuple[int, ...]]:
        """The entries that were written."""
        return layout.iter_unpack(ctypes.string_at(self._bytes, layout.size * count))

    def _make(self, room: int) -> None:
        self._room = room
        self._bytes = ctypes.create_string_buffer(room * self._entry_bytes)


class ProcessLists:
    """The lists of one device or instance."""

    def __init__(self) -> None:
        self._buffer = Buffer(FIRST_ROOM, LARGEST_ENTRY)

    def read(self, call: Caller, handle: Handle, kind: str, makes_sense: Callable[[Entry], bool]) -> list[Entry]:
        """One of `LISTS`.

        Raises:
            NoValue: it cannot be had.
        """
        most, best = -1, list[Entry]()
        for version, layout in LAYOUTS.items():
            entries = self._read_version(call, handle, LISTS[kind] + version, layout)
            if entries is None:
                continue
            sense = sum(map(makes_sense, entries))
            if sense == len(entries):
                return entries
            if sense > most:
                most, best = sense, entries
        if most < 0:
            raise NoValue(field_words(FUNCTION_NOT_FOUND), FUNCTION_NOT_FOUND)
        if 2 * most < len(best):
            raise NoValue(GARBLED)
        return best

    def _read_version(self, call: Caller, handle: Handle, name: str, layout: struct.Struct) -> list[Entry] | None:
        """`None` if the driver does not have this version of the call. Raises: NoValue."""
        try:
            count = self._buffer.fill(lambda count, out: call.code(name, handle, count, out))
        except NoValue as why:
            if why.code != FUNCTION_NOT_FOUND:
                raise
            return None
        return [Entry(*fields) for fields in self._buffer.entries(layout, count)]


class Load(NamedTuple):
    """How busy a process keeps a device."""

    sm_percent: float | Missing
    age_s: float | None
    """Age of the sample; `None` where there was none."""


class Samples:
    """The newest sample of each process on one device."""

    def __init__(self) -> None:
        self._buffer = Buffer(SAMPLE_ROOM, SAMPLE.size)
        self._newest: dict[int, tuple[int, int]] = {}
        self._asked_since = 0
        self._news: set[int] = set()
        self._missing: Missing | None = None

    def read(self, call: Caller, handle: Handle, pids: set[int], now: float) -> None:
        """Fetch samples newer than the newest one, for processes that are on the lists."""
        now_us = int(now * 1e6)
        # After the clock was set back, samples from the future would hide all later ones.
        self._newest = {pid: one for pid, one in self._newest.items() if pid in pids and one[0] <= now_us}
        self._asked_since = min(self._asked_since, now_us)
        self._missing, self._news = None, set()
        since = ctypes.c_uint64(self._asked_since)
        try:
            count = self._buffer.fill(
                lambda count, out: call.code("nvmlDeviceGetProcessUtilization", handle, out, count, since)
            )
        except NoValue as why:
            # Not found: no process has used the device since then.
            self._missing = None if why.code == NOT_FOUND else Missing(why)
            return
        for pid, time_us, sm, *_ in self._buffer.entries(SAMPLE, count):
            if self._asked_since < time_us <= now_us + AHEAD_US and pid in pids:
                self._news.add(pid)
                if time_us > self._newest.get(pid, (0, 0))[0]:
                    self._newest[pid] = (time_us, sm)
        self._asked_since = max((self._asked_since, *(time_us for time_us, _ in self._newest.values())))

    def load(self, pid: int, now: float) -> Load:
        """The load of one process; 0 if idle, also after a while without samples."""
        if self._missing is not None:
            return Load(self._missing, None)
        sample = self._newest.get(pid)
        if sample is None:
            return Load(0.0, None)
        age_s = max(0.0, now - sample[0] / 1e6)
        counts = age_s <= (STALE_S if pid in self._news else QUIET_S)
        return Load(percent(sample[1]) if counts else 0.0, float(f"{age_s:.2g}"))


def merged(lists: Mapping[str, Iterable[Entry]]) -> dict[Entry, tuple[str, ...]]:
    """Each process once per instance, with the lists it was found on; of two memory sizes the known, else the larger one."""
    found: dict[tuple[int, int, int], tuple[Entry, tuple[str, ...]]] = {}
    for kind, entries in lists.items():
        for entry in entries:
            key = (entry.pid, entry.gpu_instance, entry.compute_instance)
            other, kinds = found.get(key, (entry, ()))
            largest = max(entry, other, key=lambda one: -1 if one.memory == NO_LONG_NUMBER else one.memory)
            found[key] = (largest, kinds if kind in kinds else (*kinds, kind))
    return dict(found.values())


def row(entry: Entry, kinds: tuple[str, ...], gpu_uuid: str, total: int | None, load: Load) -> GpuProcess:
    """The row of one process; `total` is the memory of the device."""
    reasons: dict[str, str] = {}
    memory = None if entry.memory == NO_LONG_NUMBER or (total and entry.memory > total) else entry.memory
    if memory is None:
        reasons["memory_bytes"] = NO_MEMORY if entry.memory == NO_LONG_NUMBER else TOO_MUCH_MEMORY
    if isinstance(load.sm_percent, Missing):
        reasons["sm_percent"] = str(load.sm_percent)
    if load.age_s is None:
        reasons["sample_age_s"] = reasons.get("sm_percent", "the driver has no sample of it")
    return GpuProcess(
        pid=entry.pid, gpu_uuid=gpu_uuid, kinds=kinds, memory_bytes=memory,
        mig_instance=None if entry.gpu_instance == NO_NUMBER else entry.gpu_instance,
        compute_instance=None if entry.compute_instance == NO_NUMBER else entry.compute_instance,
        sm_percent=None if isinstance(load.sm_percent, Missing) else load.sm_percent, sample_age_s=load.age_s,
        reasons=reasons,
    )  # fmt: skip
