"""Which device is cuda:N for a process, by its environment. A hint, because /proc has only the initial environment.

Later changes to `os.environ` are not visible in /proc; so if the driver lists a context on a device that the environment
does not name, the result is unknown.

The grammar of CUDA_VISIBLE_DEVICES, as in torch/cuda/__init__.py (`_parse_visible_devices`) and in the section "CUDA
Environment Variables" of the CUDA Programming Guide: numbers, or UUIDs of GPUs, or UUIDs of MIG instances, with commas
between.  Numbers are read as strtoul(3) does, so `1gpu2` is 1; UUIDs may be abbreviated as long as one device fits.  The
first word that names no device, or is of another kind than the first, ends the list; one that comes twice empties it.

Numbers mean CUDA's own order: by PCI bus with CUDA_DEVICE_ORDER=PCI_BUS_ID, which is NVML's order, else the fastest first,
which is the same only where all devices are alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from mpmon.diagnosis.gpus.shares import Device, device_of, is_named
from mpmon.model import Gpu, GpuProcess, MigInstance, Process, Snapshot

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""All environment variables that matter here."""

_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,18})")


class Visible(msgspec.Struct, frozen=True, gc=False):
    """What CUDA shows one process."""

    uuids: tuple[str, ...] | None = None
    """UUIDs of GPUs or MIG instances, in CUDA's order: the first is cuda:0; `None` if unknown."""
    reason: str = ""
    """Why the list is unknown."""

    def uuid(self, number: int) -> str | None:
        """The UUID of cuda:`number`; `None` if there is no such device (negative numbers too), or if it is unknown."""
        return self.uuids[number] if self.uuids is not None and 0 <= number < len(self.uuids) else None


class Ordinal(msgspec.Struct, frozen=True, gc=False):
    """The N of cuda:N."""

    number: int | None = None
    reason: str = ""
    """Why it is not known."""


def ordinals(snapshot: Snapshot) -> dict[tuple[int, Device], Ordinal]:
    """The CUDA device number of each context, by pid and device."""
    processes = {row.pid: row for row in snapshot.processes}
    parts: dict[Device, str] = {
        (row.gpu_uuid, row.gpu_instance, row.compute_instance): row.uuid for row in snapshot.mig_instances
    }
    rows: dict[int, list[GpuProcess]] = defaultdict(list)
    for row in snapshot.gpu_processes:
        rows[row.pid].append(row)
    found: dict[tuple[int, Device], Ordinal] = {}
    known: dict[object, Visible] = {}
    for pid, contexts in rows.items():
        devices = [device_of(row) for row in contexts]
        uuids = [parts.get(device) if device[1] is not None else device[0] for device in devices]
        shown = _shown(processes.get(pid), contexts, snapshot, known)
        numbers = _numbers(shown, uuids)
        found.update(zip(((pid, device) for device in devices), numbers, strict=True))
    return found


def visible(process: Process, gpus: Sequence[Gpu], instances: Sequence[MigInstance]) -> Visible:
    """Which of these devices CUDA shows it, by its environment."""
    if process.environment is None:
        return Visible(reason="its environment cannot be read")
    value = process.environment.get("CUDA_VISIBLE_DEVICES")
    if value is not None and value.startswith("MIG-"):
        return Visible(_resolved(value, "MIG-", [pair for row in instances for pair in _names(row)]))
    if value is not None and value.startswith("GPU-"):
        named = _resolved(value, "GPU-", [(gpu.uuid, gpu.uuid) for gpu in gpus])
        return _undivided(named, gpus, instances)
    if value is not None and not _counted(value, 1 << 16):
        return Visible(())
    if reason := _uncountable(process, gpus):
        return Visible(reason=reason)
    order = [gpu.uuid for gpu in sorted(gpus, key=lambda gpu: gpu.index)]
    numbers = range(len(order)) if value is None else _counted(value, len(order))
    return _undivided(tuple(order[number] for number in numbers), gpus, instances)


def _shown(
    process: Process | None, contexts: Iterable[GpuProcess], snapshot: Snapshot, known: dict[object, Visible]
) -> Visible:
    """`known` caches results of other processes: most ranks have the same variables."""
    if process is None or not all(map(is_named, contexts)):
        return Visible(reason="not a process of the job, so its environment is not read")
    said = _said(process)
    if said not in known:
        own = [gpu for gpu in snapshot.gpus if gpu.host == process.host]
        known[said] = visible(process, own, snapshot.mig_instances)
    return known[said]


def _said(process: Process) -> object:
    """All inputs that `visible` takes from a process, as a cache key."""
    environment = process.environment
    return environment is None or tuple(map(environment.get, _VARIABLES)), process.namespace_pid is None, process.host


def _numbers(shown: Visible, uuids: Sequence[str | None]) -> list[Ordinal]:
    """The CUDA numbers of these devices, on which the process has contexts."""
    if shown.uuids is None:
        return [Ordinal(reason=shown.reason)] * len(uuids)
    if any(uuid not in shown.uuids for uuid in uuids):
        reason = "it uses a device that its initial environment does not show"
        return [Ordinal(reason=reason)] * len(uuids)
    return [Ordinal(shown.uuids.index(uuid)) for uuid in uuids if uuid is not None]


def _counted(value: str, count: int) -> list[int]:
    """The numbers of a list of numbers, for so many devices."""
    numbers: list[int] = []
    for word in value.split(","):
        match = _NUMBER.match(word)
        number = int(match[1]) if match else -1
        if number in numbers:
            return []
        if not 0 <= number < count:
            break
        numbers.append(number)
    return numbers


def _resolved(value: str, prefix: str, names: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The UUIDs of a list of names, which may be abbreviated."""
    uuids: list[str] = []
    for word in value.split(","):
        fitting = {uuid for name, uuid in names if word.startswith(prefix) and name.startswith(word)}
        if len(fitting) != 1:
            break
        uuid = fitting.pop()
        if uuid in uuids:
            return ()
        uuids.append(uuid)
    return tuple(uuids)


def _names(instance: MigInstance) -> Iterable[tuple[str, str]]:
    """What an instance may be called: by its own UUID, or as before driver 470 by the GPU's and its ids."""
    before = f"MIG-{instance.gpu_uuid}/{instance.gpu_instance}/{instance.compute_instance}"
    return (instance.uuid, instance.uuid), (before, instance.uuid)


def _undivided(uuids: tuple[str, ...], gpus: Sequence[Gpu], instances: Sequence[MigInstance]) -> Visible:
    """How many instances of a divided device CUDA shows depends on its version."""
    divided = {gpu.uuid for gpu in gpus if gpu.mig} | {row.gpu_uuid for row in instances}
    found = next((gpu for gpu in gpus if gpu.uuid in divided and gpu.uuid in uuids), None)
    if found:
        return Visible(reason=f"GPU {found.index} is divided by MIG, and its environment names no instance")
    return Visible(uuids)


def _uncountable(process: Process, gpus: Sequence[Gpu]) -> str:
    """Why CUDA's numbers cannot be interpreted here; empty if they can."""
    if process.namespace_pid is not None:
        return "it runs in a container, where devices may be numbered differently"
    by_bus = (process.environment or {}).get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not by_bus and len({gpu.name for gpu in gpus}) > 1:
        return "the devices differ, and without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA orders them by speed"
    return ""
