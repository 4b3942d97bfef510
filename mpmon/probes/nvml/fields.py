"""The queries made of a device: which call, which unit, which fields of `mpmon.model.Gpu` it fills.

Each reader returns the values of its fields in order; a missing value is a `Missing`, which says why.
Constants and structs are those of nvml.h; each is named where it is used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mpmon.probes.nvml.calls import NO_LONG_NUMBER, Caller, Handle, NoValue
from mpmon.probes.nvml.words import DEVICES, FUNCTION_NOT_FOUND, NOT_SUPPORTED, field_words

MIG_IS_ON = "not supported while MIG is on"
NOT_ASKED = "not asked for"


class Missing(str):
    """Why there is no value."""

    __slots__ = ()


class Reader(NamedTuple):
    """One query to the driver."""

    fields: tuple[str, ...]
    read: Callable[[Caller, Handle], Sequence[Any]]


class Facts:
    """Values of fields, and why others have none."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.problem: str | None = None
        """Why the device as a whole cannot be read."""

    def read(self, readers: Sequence[Reader], call: Caller, handle: Handle) -> None:
        """Run these readers."""
        for reader in readers:
            try:
                values = reader.read(call, handle)
            except NoValue as why:
                self.problem = self.problem or DEVICES.get(why.code)
                values = [Missing(why)] * len(reader.fields)
            for field, value in zip(reader.fields, values, strict=True):
                self.put(field, value)

    def put(self, field: str, value: Any, *, missing: object = None) -> None:
        """Set one value, or the reason why there is none and `missing` in its place."""
        if isinstance(value, Missing):
            self.values[field], self.reasons[field] = missing, str(value)
        else:
            self.values[field] = value

    def add(self, other: Facts) -> None:
        """Add all facts of another."""
        self.values |= other.values
        self.reasons |= other.reasons
        self.problem = self.problem or other.problem


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64))


class _Memory2(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = (
        ("version", ctypes.c_uint32), ("total", ctypes.c_uint64), ("reserved", ctypes.c_uint64),
        ("free", ctypes.c_uint64), ("used", ctypes.c_uint64),
    )  # fmt: skip


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = (("gpu", ctypes.c_uint32), ("memory", ctypes.c_uint32))


class _Temperature(ctypes.Structure):
    """nvmlTemperature_v1_t."""

    _fields_ = (("version", ctypes.c_uint32), ("sensor", ctypes.c_int32), ("celsius", ctypes.c_int32))


class _Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (("before", ctypes.c_char * 36), ("bus_id", ctypes.c_char * 32))


class _FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("field", ctypes.c_uint32), ("scope", ctypes.c_uint32), ("time", ctypes.c_int64), ("latency", ctypes.c_int64),
        ("kind", ctypes.c_uint32), ("code", ctypes.c_uint32), ("value", ctypes.c_uint64),
    )  # fmt: skip


def _version(struct: type[ctypes.Structure], number: int) -> int:
    """NVML_STRUCT_VERSION."""
    return ctypes.sizeof(struct) | number << 24


_MEMORY_2, _TEMPERATURE_1 = _version(_Memory2, 2), _version(_Temperature, 1)
_SENSOR_GPU = 0
_CLOCK_SM, _CLOCK_MEMORY = ctypes.c_int(1), ctypes.c_int(2)
_PCIE_SENT, _PCIE_RECEIVED = ctypes.c_int(0), ctypes.c_int(1)
_UNCORRECTED, _VOLATILE = ctypes.c_int(1), ctypes.c_int(0)
_RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""

CLOCK_EVENTS: dict[int, str] = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "slowdown (hardware)",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake (hardware)",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason…"""

RECOVERY_ACTIONS = (
    "none", "reset", "reboot", "drain peer-to-peer", "drain and reset", "recover the IMEX domain", "bus reset",
    "reboot the system",
)  # fmt: skip
"""NVML_GPU_RECOVERY_ACTION_…"""

COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
"""NVML_COMPUTEMODE_…"""


def memory(call: Caller, handle: Handle) -> Sequence[Any]:
    """Total, used (without reserved) and reserved by the driver, bytes; older drivers count reserved memory as used."""
    out = _Memory2(version=_MEMORY_2)
    code = call.code("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(out))
    if code == 0:
        return _checked_memory(out.total, out.used, out.reserved)
    if code in DEVICES:
        raise NoValue(field_words(code), code)
    old = _Memory()
    call.check("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(old))
    return _checked_memory(old.total, old.used, Missing("this driver counts it as used memory"))


def _checked_memory(total: int, used: int, reserved: int | Missing) -> Sequence[Any]:
    if total in {0, NO_LONG_NUMBER}:
        raise NoValue("the GPU has no memory of its own: it shares the system's")
    checked = [
        value if isinstance(value, Missing) or value <= total else Missing("the driver says more than the GPU has")
        for value in (used, reserved)
    ]
    return (total, *checked)


def _utilization(call: Caller, handle: Handle) -> Sequence[Any]:
    out = _Utilization()
    call.check("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(out))
    return [percent(value) for value in (out.gpu, out.memory)]


def percent(value: int) -> float | Missing:
    """A share the driver gives, which is at times no share."""
    return float(value) if value <= 100 else Missing(f"the driver gives {value}, which is no share")


def _power(call: Caller, handle: Handle) -> Sequence[Any]:
    return (call.number("nvmlDeviceGetPowerUsage", handle) / 1000,)


def _power_limit(call: Caller, handle: Handle) -> Sequence[Any]:
    """The same limit as nvidia-smi shows beside the power."""
    return (call.number("nvmlDeviceGetPowerManagementLimit", handle) / 1000,)


def _temperature(call: Caller, handle: Handle) -> Sequence[Any]:
    out = _Temperature(version=_TEMPERATURE_1, sensor=_SENSOR_GPU)
    if call.code("nvmlDeviceGetTemperatureV", handle, ctypes.byref(out)) == 0:
        return (float(out.celsius),)
    return (float(call.number("nvmlDeviceGetTemperature", handle, ctypes.c_int(_SENSOR_GPU))),)


def _sm_clock(call: Caller, handle: Handle) -> Sequence[Any]:
    return (call.number("nvmlDeviceGetClockInfo", handle, _CLOCK_SM),)


def _sm_clock_max(call: Caller, handle: Handle) -> Sequence[Any]:
    return (call.number("nvmlDeviceGetMaxClockInfo", handle, _CLOCK_SM),)


def _memory_clock(call: Caller, handle: Handle) -> Sequence[Any]:
    return (call.number("nvmlDeviceGetClockInfo", handle, _CLOCK_MEMORY),)


def _clock_events(call: Caller, handle: Handle) -> Sequence[Any]:
    try:
        bits = call.long_number("nvmlDeviceGetCurrentClocksEventReasons", handle)
    except NoValue as why:
        if why.code != FUNCTION_NOT_FOUND:
            raise
        bits = call.long_number("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    single = (1 << place for place in range(bits.bit_length()) if bits >> place & 1)
    return (tuple(CLOCK_EVENTS.get(bit, f"reason {bit:#x}") for bit in single),)


def _ecc(call: Caller, handle: Handle) -> Sequence[Any]:
    return (call.long_number("nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE),)


def _recovery_action(call: Caller, handle: Handle) -> Sequence[Any]:
    """The buffer holds two answers: drivers have written one past the count."""
    out = (_FieldValue * 2)()
    out[0].field = _RECOVERY_ACTION
    call.check("nvmlDeviceGetFieldValues", handle, ctypes.c_int(1), out)
    if out[0].code:
        raise NoValue(field_words(out[0].code), out[0].code)
    return (_name(RECOVERY_ACTIONS, out[0].value & 0xFFFFFFFF, "action"),)


def _mig(call: Caller, handle: Handle) -> Sequence[Any]:
    now, after_reset = ctypes.c_uint32(), ctypes.c_uint32()
    code = call.code("nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(after_reset))
    if code == NOT_SUPPORTED:
        return (False,)
    if code:
        raise NoValue(field_words(code), code)
    return (now.value == 1,)


def _compute_mode(call: Caller, handle: Handle) -> Sequence[Any]:
    return (_name(COMPUTE_MODES, call.number("nvmlDeviceGetComputeMode", handle), "mode"),)


def _persistence(call: Caller, handle: Handle) -> Sequence[Any]:
    return (call.number("nvmlDeviceGetPersistenceMode", handle) == 1,)


def _pcie(call: Caller, handle: Handle) -> Sequence[Any]:
    return [
        call.number("nvmlDeviceGetPcieThroughput", handle, direction) * 1024
        for direction in (_PCIE_RECEIVED, _PCIE_SENT)
    ]


def _bus_id(call: Caller, handle: Handle) -> Sequence[Any]:
    out = _Pci()
    call.check("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(out))
    return (out.bus_id.decode("ascii", "replace"),)


def _name(names: Sequence[str], number: int, what: str) -> str:
    return names[number] if number < len(names) else f"{what} {number}"


ALWAYS = (
    Reader(("utilization_percent", "memory_utilization_percent"), _utilization),
    Reader(("memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes"), memory),
    Reader(("power_watts",), _power),
)
SLOWLY = (
    Reader(("power_limit_watts",), _power_limit),
    Reader(("temperature_celsius",), _temperature),
    Reader(("sm_clock_mhz",), _sm_clock),
    Reader(("memory_clock_mhz",), _memory_clock),
    Reader(("clock_event_reasons",), _clock_events),
    Reader(("ecc_uncorrected",), _ecc),
    Reader(("recovery_action",), _recovery_action),
    Reader(("mig",), _mig),
    Reader(("compute_mode",), _compute_mode),
    Reader(("persistence",), _persistence),
)
ONCE = (Reader(("bus_id",), _bus_id), Reader(("sm_clock_max_mhz",), _sm_clock_max))
"""Values that never change; the maximum clock takes 2 ms of CPU on an H100."""
PCIE = (Reader(("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"), _pcie),)
