"""The processes that use one device, from look to look: its lists, or with MIG those of its instances, and each one's load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mpmon.model import GpuProcess
from mpmon.probes.nvml.calls import NO_LONG_NUMBER, Caller, Handle, NoValue
from mpmon.probes.nvml.fields import MIG_IS_ON, Missing
from mpmon.probes.nvml.instances import Instance
from mpmon.probes.nvml.processes import LISTS, Entry, Load, ProcessLists, Samples, merged, row

ALWAYS_READ = "compute"
"""The other lists are mostly empty and cost as much to read, so an empty list is skipped for a while."""


LARGEST_PID = 1 << 22
"""PID_MAX_LIMIT of <linux/threads.h>: pids are smaller on every machine, whatever this container's own limit."""


class Place(NamedTuple):
    """A device or a MIG instance that has its own process lists."""

    handle: Handle
    lists: ProcessLists
    total: int | None
    """Its memory in bytes."""
    instance: Instance | None = None


class Users:
    """The processes of one device."""

    def __init__(self) -> None:
        self._lists = ProcessLists()
        self._samples = Samples()
        self._empty: set[tuple[int, str]] = set()
        """Lists that were empty: number of the place, kind."""
        self.problem: str | None = None
        """Why the list of processes is unknown."""

    def read(
        self, call: Caller, handle: Handle, *, uuid: str, total: int | None, busy: float | None,
        instances: Sequence[Instance], now: float,
    ) -> tuple[GpuProcess, ...]:  # fmt: skip
        """One row per process and instance.

        Args:
            call: To ask the driver.
            handle: The device,
            uuid: its UUID,
            total: its memory, bytes,
            busy: its utilization, percent,
            instances: and its parts by MIG.
            now: Seconds since the epoch.
        """
        self.problem = None
        places = [Place(one.handle, one.lists, one.total, one) for one in instances]
        rows: list[GpuProcess] = []
        for number, place in enumerate(places or [Place(handle, self._lists, total)]):
            found = merged({kind: self._read_list(call, number, place, kind) for kind in LISTS})
            load = self._loads(call, place, found, busy, now)
            rows += [row(entry, kinds, uuid, place.total, load(entry.pid)) for entry, kinds in found.items()]
        return tuple(rows)

    def read_all_lists(self) -> None:
        """Look again at lists that were empty."""
        self._empty.clear()

    def _loads(
        self, call: Caller, place: Place, found: Iterable[Entry], busy: float | None, now: float
    ) -> Callable[[int], Load]:
        """How busy each pid keeps the device."""
        if place.instance:
            return lambda _: Load(Missing(MIG_IS_ON), None)
        pids = {entry.pid for entry in found}
        if len(pids) == 1 and busy is not None:
            # All of the device's load is that process's; reading samples would take 2.7 ms of CPU on an H100.
            return lambda _: Load(busy, 0.0)
        if pids:
            self._samples.read(call, place.handle, pids, now)
        return lambda pid: self._samples.load(pid, now)

    def _read_list(self, call: Caller, number: int, place: Place, kind: str) -> list[Entry]:
        if (number, kind) in self._empty:
            return []
        try:
            entries = place.lists.read(call, place.handle, kind, lambda entry: _makes_sense(entry, place.total))
        except NoValue as why:
            entries = []
            if kind == ALWAYS_READ:
                self.problem = str(why)
        if not entries and kind != ALWAYS_READ:
            self._empty.add((number, kind))
        return [place.instance.own(entry) for entry in entries] if place.instance else entries


def _makes_sense(entry: Entry, total: int | None) -> bool:
    fits = not total or entry.memory <= total or entry.memory == NO_LONG_NUMBER
    return fits and 0 < entry.pid < LARGEST_PID
