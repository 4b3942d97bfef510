"""GPUs, their parts, and the processes on them."""

from __future__ import annotations

import msgspec

from mpmon.model.columns import Moment, Pid, Row


class Xid(Row, frozen=True, kw_only=True):
    """An error the driver reported while mpmon listened: numbers as in NVIDIA's "Xid Errors"."""

    number: int
    seen_at: Moment


class Gpu(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One NVIDIA device, by UUID, as nvml.h words it; a field that is `None` has its reason in `reasons`."""

    uuid: str
    index: int
    """NVML's number, in PCI order; CUDA may number devices differently."""
    host: str = ""
    """As in `Process`."""
    name: str
    bus_id: str | None = None
    read_at: Moment = 0.0
    """When these values were read, seconds since the epoch; older than the snapshot when the driver does not answer."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    """Without what the driver reserves (memory v2), as nvidia-smi counts."""
    memory_reserved_bytes: int | None = None
    utilization_percent: float | None = None
    """Share of the last sample period in which at least one kernel ran: one that only spins counts in full."""
    memory_utilization_percent: float | None = None
    """Share of that period in which device memory was read or written; not how full it is."""
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    clock_event_reasons: tuple[str, ...] | None = None
    """Why clocks are not higher: `power cap`, `thermal (hardware)` …; empty when nothing holds them down."""
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    recovery_action: str | None = None
    """What the driver requests after an error: `none`, `reset`, `reboot`, `drain` …"""
    xids: tuple[Xid, ...] = ()
    """Errors since mpmon started; earlier ones cannot be queried."""
    mig: bool | None = None
    compute_mode: str | None = None
    persistence: bool | None = None
    pcie_rx_bytes_per_s: int | None = None
    """Only while a view needs it: the driver measures for 20 ms per direction."""
    pcie_tx_bytes_per_s: int | None = None
    problem: str | None = None
    """Why the device as a whole cannot be read: `the GPU is lost`, `driver call nvmlDeviceGetPowerUsage blocks`."""
    blocked_since: Moment | None = None
    """Since when a driver call on it has not returned, seconds since the epoch."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a field is `None`."""


SLOWDOWNS = ("thermal", "slowdown", "brake")
"""Words of the reasons in `Gpu.clock_event_reasons` that heat or hardware gives: nvmlClocksEventReason of nvml.h with
ThermalSlowdown, HwSlowdown, PowerBrake.  That clocks stay within the power limit is normal.
"""


class MigInstance(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A part of a device that CUDA sees as a separate device."""

    uuid: str
    gpu_uuid: str
    gpu_instance: int
    compute_instance: int | None = None
    name: str
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    reasons: dict[str, str] = msgspec.field(default_factory=dict)


class GpuProcess(Row, frozen=True, kw_only=True, omit_defaults=False):
    """What the driver attributes to one process on one device or MIG instance, of the job or not."""

    pid: Pid
    """As the driver says; a pid of another namespace when `reasons` has `pid`."""
    gpu_uuid: str
    mig_instance: int | None = None
    """GPU instance id."""
    compute_instance: int | None = None
    kinds: tuple[str, ...] = ()
    """In which of the driver's lists it is: `compute`, `graphics`, `mps`."""
    name: str | None = None
    """The kernel's name of the process, when it is not of the job."""
    memory_bytes: int | None = None
    """All memory its context holds, torch's cache and libraries included."""
    sm_percent: float | None = None
    """Share of the sample period in which its kernels ran; 0 when the driver has no new sample of it."""
    sample_age_s: float | None = None
    """How old that sample was when it was read."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
