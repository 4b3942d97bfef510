"""One device: its row, its instances, and the processes that use it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import msgspec

from mpmon.model import Gpu, GpuProcess, MigInstance, Xid
from mpmon.probes.nvml.calls import Caller, Handle, NoValue
from mpmon.probes.nvml.fields import ALWAYS, MIG_IS_ON, NOT_ASKED, ONCE, PCIE, SLOWLY, Facts, Missing
from mpmon.probes.nvml.instances import Instance, instances
from mpmon.probes.nvml.stale import without_load
from mpmon.probes.nvml.users import Users
from mpmon.probes.nvml.wire import Ask, Settings
from mpmon.probes.nvml.words import CODES, DEVICES, NOT_SUPPORTED

NOT_READ = "not read yet"
NEVER = float("-inf")

Xids = Callable[[str], "tuple[Xid, ...] | Missing"]
"""The Xids that a device, by UUID, has reported, or why they cannot be known."""


class Device:
    """Read by one thread at a time; the last result is in `gpu`, `parts` and `users`."""

    def __init__(self, index: int, settings: Settings) -> None:
        self.index = index
        self.gpu: Gpu | None = None
        self.parts: tuple[MigInstance, ...] = ()
        self.users: tuple[GpuProcess, ...] = ()
        self.handle: Handle | None = None
        self._settings = settings
        self._users = Users()
        self._fixed, self._slow = Facts(), Facts()
        self._fixed.values |= {"index": index, "uuid": f"unread-{index}", "name": "NVIDIA GPU"}
        self._instances: list[Instance] = []
        self._slowly_at = self._lists_at = NEVER

    def read(self, call: Caller, ask: Ask, xids: Xids) -> None:
        """Query the driver for what is due."""
        try:
            handle = self._open(call) if self.handle is None else self.handle
        except NoValue as why:
            self.gpu = self._row_without_values(str(why), read_at=time.time(), problem=DEVICES.get(why.code, str(why)))
            return
        started, at = time.monotonic(), time.time()
        facts = Facts()
        facts.read(ALWAYS, call, handle)
        if started >= self._slowly_at + self._settings.slowly_every_s:
            self._slowly_at, self._lists_at = started, NEVER
            self._read_slowly(call, handle)
        facts.add(self._fixed)
        facts.add(self._slow)
        self._read_pcie(facts, ask, call, handle)
        uuid, total = facts.values["uuid"], facts.values["memory_total_bytes"]
        facts.put("xids", xids(uuid), missing=())
        self.parts = tuple(instance.row(call, uuid) for instance in self._instances)
        if started >= self._lists_at + self._settings.lists_every_s:
            self._lists_at = started
            self.users = self._users.read(
                call, handle, uuid=uuid, total=total, busy=facts.values["utilization_percent"],
                instances=self._instances, now=at,
            )  # fmt: skip
        if self._users.problem:
            facts.reasons["gpu_processes"] = self._users.problem
        self.gpu = self._row(facts, at)

    def stuck(self, problem: str, since: float) -> tuple[Gpu, tuple[GpuProcess, ...]]:
        """The rows from before a call got stuck; the processes' load is no longer known."""
        gpu = self.gpu or self._row_without_values(NOT_READ)
        return msgspec.structs.replace(gpu, problem=problem, blocked_since=since), without_load(self.users, problem)

    def _open(self, call: Caller) -> Handle:
        """Raises: NoValue."""
        handle = call.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(self.index))
        self._fixed.values["uuid"] = call.text("nvmlDeviceGetUUID", handle)
        self._fixed.values["name"] = call.text("nvmlDeviceGetName", handle)
        self._fixed.read(ONCE, call, handle)
        self.handle = handle
        return handle

    def _read_slowly(self, call: Caller, handle: Handle) -> None:
        self._slow = Facts()
        self._slow.read(SLOWLY, call, handle)
        self._instances = instances(call, handle) if self._slow.values["mig"] else []
        self._users.read_all_lists()

    def _read_pcie(self, facts: Facts, ask: Ask, call: Caller, handle: Handle) -> None:
        if ask.pcie:
            facts.read(PCIE, call, handle)
        else:
            for field in PCIE[0].fields:
                facts.put(field, Missing(NOT_ASKED))

    def _row(self, facts: Facts, at: float) -> Gpu:
        reasons = facts.reasons
        if facts.values["mig"]:
            reasons = {field: MIG_IS_ON if why == CODES[NOT_SUPPORTED] else why for field, why in reasons.items()}
        return Gpu(**facts.values, read_at=at, problem=facts.problem, reasons=reasons)

    def _row_without_values(self, reason: str, **known: Any) -> Gpu:
        fields = (field for reader in (*ALWAYS, *SLOWLY, *ONCE, *PCIE) for field in reader.fields)
        reasons = {field: reason for field in fields if self._fixed.values.get(field) is None}
        return Gpu(**self._fixed.values, reasons=reasons, **known)
