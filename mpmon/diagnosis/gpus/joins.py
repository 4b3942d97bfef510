"""Which process uses which device: the joins that all remarks about GPUs share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, takewhile

from mpmon.diagnosis.gpus.shares import Device, Share, by_device, device_of, is_named
from mpmon.diagnosis.gpus.visible import Ordinal, ordinals
from mpmon.diagnosis.humanize import runs, several
from mpmon.diagnosis.state.snapshot_index import SnapshotIndex
from mpmon.diagnosis.thresholds import GPU_FRESH_S, GPU_WORKS_PERCENT
from mpmon.model import Gpu, GpuProcess

_DEVICE = "device:/dev/nvidia"
_ENVIRONMENT = ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES")


class Gpus:
    """The joins over the tables of one moment. Everything is computed when first asked for."""

    def __init__(self, tables: SnapshotIndex) -> None:
        self._tables = tables
        self._snapshot = tables.snapshot

    @property
    def seen(self) -> bool:
        """Whether there is any GPU data."""
        return bool(self._snapshot.gpus or self._snapshot.gpu_processes)

    @cached_property
    def by_uuid(self) -> dict[str, Gpu]:
        """The devices."""
        return {gpu.uuid: gpu for gpu in self._snapshot.gpus}

    @cached_property
    def fresh(self) -> tuple[Gpu, ...]:
        """The devices with current values."""
        return tuple(gpu for gpu in self._snapshot.gpus if is_fresh(gpu, self._tables.now))

    @cached_property
    def contexts(self) -> tuple[GpuProcess, ...]:
        """The contexts that the driver attributes to processes of the job."""
        return tuple(row for row in self._snapshot.gpu_processes if is_named(row) and row.pid in self._tables.processes)

    @cached_property
    def strangers(self) -> tuple[GpuProcess, ...]:
        """The contexts that the driver attributes to processes outside the job."""
        return tuple(
            row for row in self._snapshot.gpu_processes if is_named(row) and row.pid not in self._tables.processes
        )

    @cached_property
    def on(self) -> dict[Device, tuple[GpuProcess, ...]]:
        """All contexts on a device: of the job, of other processes, and of unknown pids."""
        found: dict[Device, list[GpuProcess]] = defaultdict(list)
        for row in self._snapshot.gpu_processes:
            found[device_of(row)].append(row)
        return {device: tuple(rows) for device, rows in found.items()}

    @cached_property
    def ranks(self) -> frozenset[int]:
        """The living ranks."""
        return frozenset(self._tables.ranks)

    @cached_property
    def heads(self) -> frozenset[int]:
        """The processes whose use is shown separately: the ranks; in a job without ranks, processes with a context that are
        not workers.
        """
        if self.ranks:
            return self.ranks
        return frozenset(row.pid for row in self.contexts if not self._tables.role(row.pid).serves)

    def head(self, pid: int) -> int | None:
        """The nearest head at or above a process of the job, following whom each works for."""
        processes, seen = self._tables.processes, set[int]()
        while pid in processes and pid not in seen:
            if pid in self.heads:
                return pid
            seen.add(pid)
            pid = self._tables.role(pid).parent or processes[pid].ppid
        return None

    @cached_property
    def _of_heads(self) -> dict[int, list[GpuProcess]]:
        """The contexts of each head and its workers."""
        found: dict[int, list[GpuProcess]] = defaultdict(list)
        for row in self.contexts:
            if (head := self.head(row.pid)) is not None:
                found[head].append(row)
        return found

    @cached_property
    def devices(self) -> dict[int, frozenset[Device]]:
        """Devices on which each head, or one of its workers, has a context."""
        return {head: frozenset(map(device_of, rows)) for head, rows in self._of_heads.items()}

    @cached_property
    def use(self) -> dict[int, tuple[Share, ...]]:
        """What each head and its workers use, one share per device."""
        return {head: by_device(rows) for head, rows in self._of_heads.items()}

    @cached_property
    def own(self) -> dict[int, Device]:
        """The device of each head: its only one, the one on which it holds by far the most, or that of LOCAL_RANK.

        A head for which none of these applies is missing.
        """
        found = {head: self._own(head, devices) for head, devices in self.devices.items()}
        return {head: device for head, device in found.items() if device is not None}

    def _own(self, head: int, devices: frozenset[Device]) -> Device | None:
        if len(devices) == 1:
            return next(iter(devices))
        shares = self.use[head]
        sizes = sorted((share.memory_bytes, share.device) for share in shares if share.memory_bytes is not None)
        if len(sizes) == len(shares) and sizes[-1][0] >= 2 * sizes[-2][0]:
            return sizes[-1][1]
        local = self._tables.role(head).local_rank
        if local is None:
            return None
        numbers = {share.device: self._ordinals.get((head, share.device)) for share in shares}
        return next((device for device, found in numbers.items() if found and found.number == local), None)

    @cached_property
    def _ordinals(self) -> dict[tuple[int, Device], Ordinal]:
        return ordinals(self._snapshot)

    @cached_property
    def owners(self) -> dict[Device, tuple[int, ...]]:
        """The heads that own each device."""
        found: dict[Device, list[int]] = defaultdict(list)
        for head, device in self.own.items():
            found[device].append(head)
        return {device: tuple(heads) for device, heads in found.items()}

    def users(self, gpu_uuid: str) -> tuple[int, ...]:
        """The heads with a context on a GPU, its owners first."""
        having = [head for head, devices in self.devices.items() if any(device[0] == gpu_uuid for device in devices)]
        return tuple(sorted(having, key=lambda head: self.own.get(head, ("",))[0] != gpu_uuid))

    def readings(self, gpu_uuid: str, since: float, until: float) -> list[Gpu]:
        """The values of a device that were read in that time, seconds since the epoch, oldest first."""
        return [gpu for gpu in self._since(gpu_uuid, since) if gpu.read_at <= until][::-1]

    def latest(self, gpu_uuid: str, count: int, since: float) -> list[Gpu]:
        """The last `count` readings of a device since that moment, oldest first."""
        return list(islice(self._since(gpu_uuid, since), count))[::-1]

    def _since(self, gpu_uuid: str, since: float) -> Iterator[Gpu]:
        return takewhile(lambda gpu: gpu.read_at >= since, self._back(gpu_uuid))

    def _back(self, gpu_uuid: str) -> Iterator[Gpu]:
        """The readings of a device in the history, each once, newest first."""
        read_at = float("inf")
        for moment in reversed(self._tables.history.trend):
            for gpu in moment.gpus:
                if gpu.uuid == gpu_uuid and gpu.read_at < read_at and is_fresh(gpu, moment.taken_at):
                    read_at = gpu.read_at
                    yield gpu

    def busy_with(self, pid: int) -> float | None:
        """For how much of the time a device was busy with a process lately, percent; `None` if hardly any, or unknown.

        A thread that waits for a kernel asks the driver again and again, and looks like one that computes.
        """
        fresh = {gpu.uuid for gpu in self.fresh}
        percents = [row.sm_percent or 0.0 for row in self.contexts if row.pid == pid and row.gpu_uuid in fresh]
        most = max(percents, default=0.0)
        return most if most > GPU_WORKS_PERCENT else None

    def last_use(self, pid: int) -> tuple[GpuProcess, ...]:
        """What a process used when it was last seen on a GPU; empty if it never was."""
        for moment in reversed(self._tables.history.trend):
            if rows := [row for row in moment.gpu_processes if row.pid == pid and is_named(row)]:
                return tuple(rows)
        return ()

    @cached_property
    def used(self) -> frozenset[str]:
        """UUIDs of the GPUs on which a process of the job has a context, or had one lately."""
        pids = {*self._tables.processes, *(row.pid for row in self._snapshot.exits)}
        rows = (row for moment in self._tables.history.trend for row in moment.gpu_processes)
        return frozenset(row.gpu_uuid for row in rows if row.pid in pids and is_named(row))

    @cached_property
    def opened(self) -> dict[int, tuple[str, ...]]:
        """The device files of GPUs that processes of the job have open: `/dev/nvidia0`.

        A process that only counts devices opens them too.
        """
        found: dict[int, set[str]] = defaultdict(set)
        for handle in self._snapshot.handles:
            if handle.object.startswith(_DEVICE) and handle.object[len(_DEVICE) :].isdigit():
                found[handle.pid].add(handle.object.removeprefix("device:"))
        return {pid: tuple(sorted(names)) for pid, names in found.items()}

    def has_open(self, pid: int, gpu: Gpu) -> bool:
        """The process has that GPU's device file open: the driver numbers device files by PCI bus, as NVML does devices."""
        return f"/dev/nvidia{gpu.index}" in self.opened.get(pid, ())

    def is_listed(self, gpu: Gpu) -> bool:
        """Whether the driver lists its processes."""
        return "gpu_processes" not in gpu.reasons

    def is_divided(self, gpu_uuid: str) -> bool:
        """Whether it is divided by MIG."""
        gpu = self.by_uuid.get(gpu_uuid)
        return bool(gpu and gpu.mig) or any(row.gpu_uuid == gpu_uuid for row in self._snapshot.mig_instances)

    def name(self, device: Device) -> str:
        """`GPU 3`, `MIG instance 1 of GPU 3`."""
        gpu_uuid, mig_instance, compute_instance = device
        gpu = self.by_uuid.get(gpu_uuid)
        name = f"GPU {gpu.index}" if gpu else gpu_uuid
        if mig_instance is None:
            return name
        part = f"{mig_instance}" if not compute_instance else f"{mig_instance}/{compute_instance}"
        return f"MIG instance {part} of {name}"

    def who(self, heads: Iterable[int]) -> str:
        """`rank 3`, `ranks 0 and 4-7`, `main (pid 41)`."""
        pids = list(heads)
        numbers = sorted(
            role.rank for pid in pids if (role := self._tables.role(pid)).is_rank and role.rank is not None
        )
        unnumbered = [pid for pid in pids if not (role := self._tables.role(pid)).is_rank or role.rank is None]
        ranks = [f"rank{'s' if len(numbers) > 1 else ''} {runs(numbers)}"] if numbers else []
        return several([*ranks, *(f"{self._tables.full_name(pid)}" for pid in unnumbered)])

    def environment(self, pid: int) -> str:
        """What its environment says of devices, to be appended: `; LOCAL_RANK=1, CUDA_VISIBLE_DEVICES is not set`."""
        process = self._tables.processes.get(pid)
        if process is None or process.environment is None:
            return ""
        named = [f"{name}={value}" for name in _ENVIRONMENT if (value := process.environment.get(name)) is not None]
        unset = [] if "CUDA_VISIBLE_DEVICES" in process.environment else ["CUDA_VISIBLE_DEVICES is not set"]
        return f"; {', '.join([*named, *unset])}"


def is_fresh(gpu: Gpu, at: float) -> bool:
    """Its values could be read, shortly before that moment."""
    return gpu.problem is None and at - gpu.read_at <= GPU_FRESH_S
