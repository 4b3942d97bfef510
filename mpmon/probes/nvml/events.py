"""Xids: errors the driver reports as they happen, and only to processes that are already listening.

A dedicated thread waits for them; numbers as in NVIDIA's "Xid Errors".
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections import deque
from collections.abc import Sequence

from mpmon.model import Xid
from mpmon.probes.nvml.calls import Caller, Functions, Handle, NoValue
from mpmon.probes.nvml.fields import Missing
from mpmon.probes.nvml.words import TIMEOUT, field_words

XID_CRITICAL_ERROR = ctypes.c_uint64(0x8)
"""nvmlEventTypeXidCriticalError."""

WAIT_MS = 5000
MOST_XIDS = 100
"""Most Xids that are kept per device, the newest."""


class _Event(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p), ("type", ctypes.c_uint64), ("data", ctypes.c_uint64),
        ("gpu_instance", ctypes.c_uint32), ("compute_instance", ctypes.c_uint32),
    )  # fmt: skip


class Events:
    """Xids that devices have reported since mpmon began to listen."""

    def __init__(self, functions: Functions) -> None:
        self._call = Caller(functions)
        self._told: dict[str, deque[Xid]] = {}
        self._deaf: dict[str, Missing] = {}
        self._over: Missing | None = None

    def listen(self, handles: Sequence[Handle]) -> None:
        """Listen to these devices, for ever."""
        threading.Thread(target=self._run, args=(handles,), name="xids", daemon=True).start()

    def of(self, uuid: str) -> tuple[Xid, ...] | Missing:
        """The Xids of a device, or why they cannot be known."""
        told = tuple(self._told.get(uuid, ()))
        return told or self._deaf.get(uuid) or self._over or ()

    def _run(self, handles: Sequence[Handle]) -> None:
        try:
            events = self._call.handle("nvmlEventSetCreate")
            for handle in handles:
                self._register(handle, events)
            while True:
                self._wait(events)
        except NoValue as why:
            self._over = Missing(why)

    def _register(self, handle: Handle, events: Handle) -> None:
        uuid = self._call.text("nvmlDeviceGetUUID", handle)
        try:
            self._call.check("nvmlDeviceRegisterEvents", handle, XID_CRITICAL_ERROR, events)
        except NoValue as why:
            self._deaf[uuid] = Missing(why)

    def _wait(self, events: Handle) -> None:
        """Raises: NoValue."""
        event = _Event()
        code = self._call.code("nvmlEventSetWait_v2", events, ctypes.byref(event), ctypes.c_uint(WAIT_MS))
        if code == TIMEOUT:
            return
        if code:
            raise NoValue(field_words(code), code)
        with contextlib.suppress(NoValue):  # a device that has just fallen off its bus may no longer report its UUID
            uuid = self._call.text("nvmlDeviceGetUUID", Handle(event.device))
            told = self._told.setdefault(uuid, deque(maxlen=MOST_XIDS))
            told.append(Xid(number=event.data, seen_at=time.time()))
