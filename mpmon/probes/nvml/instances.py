"""MIG: the instances of a device, each with memory and processes of its own."""

from __future__ import annotations

import ctypes

from mpmon.model import MigInstance
from mpmon.probes.nvml.calls import Caller, Handle, NoValue
from mpmon.probes.nvml.fields import Facts, Reader, memory
from mpmon.probes.nvml.processes import Entry, ProcessLists

MEMORY = (Reader(("memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes"), memory),)


class Instance:
    """One MIG device: a compute instance of a GPU instance."""

    def __init__(self, call: Caller, handle: Handle) -> None:
        """Ask what does not change.

        Raises:
            NoValue: its UUID or ids cannot be read.
        """
        self.handle = handle
        self.lists = ProcessLists()
        self._uuid = call.text("nvmlDeviceGetUUID", handle)
        self._gpu_instance = call.number("nvmlDeviceGetGpuInstanceId", handle)
        self._compute_instance = call.number("nvmlDeviceGetComputeInstanceId", handle)
        try:
            self._name = call.text("nvmlDeviceGetName", handle)
        except NoValue:
            self._name = "MIG"
        self.total: int | None = None

    def row(self, call: Caller, gpu_uuid: str) -> MigInstance:
        """Its row, with its memory use now."""
        facts = Facts()
        facts.read(MEMORY, call, self.handle)
        self.total = facts.values["memory_total_bytes"]
        fields = ("memory_total_bytes", "memory_used_bytes")
        return MigInstance(
            uuid=self._uuid, gpu_uuid=gpu_uuid, gpu_instance=self._gpu_instance, name=self._name,
            compute_instance=self._compute_instance,
            memory_total_bytes=self.total, memory_used_bytes=facts.values["memory_used_bytes"],
            reasons={field: facts.reasons[field] for field in fields if field in facts.reasons},
        )  # fmt: skip

    def own(self, entry: Entry) -> Entry:
        """An entry of its list, with this instance filled in: the driver may leave it out as implied."""
        return entry._replace(gpu_instance=self._gpu_instance, compute_instance=self._compute_instance)


def instances(call: Caller, handle: Handle) -> list[Instance]:
    """The instances of a device that mpmon may see."""
    found: list[Instance] = []
    try:
        most = call.number("nvmlDeviceGetMaxMigDeviceCount", handle)
    except NoValue:
        return found
    for index in range(most):
        try:
            found.append(
                Instance(call, call.handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index)))
            )
        except NoValue:
            # Not every index is in use, and those of other containers may not be seen.
            continue
    return found
