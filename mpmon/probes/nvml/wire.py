"""What the loop and the helper say to each other: one line of JSON each, rows of the model inside."""

from __future__ import annotations

import msgspec

from mpmon.model import Gpu, GpuProcess, MigInstance


class Settings(msgspec.Struct, frozen=True):
    """How patient the helper is, and how often it asks what. Seconds."""

    deadline_s: float = 1.0
    """A call that takes longer is left behind with its device."""
    start_deadline_s: float = 5.0
    """The same for the start: without persistence the driver wakes GPUs for it, which takes seconds."""
    lists_every_s: float = 0.95
    """Between two looks at who uses a device: once a second, also when a round comes a little early."""
    slowly_every_s: float = 5.0
    """Between two looks at what changes slowly: temperature, clocks, errors, modes, lists that were empty."""
    retry_s: float = 30.0
    """After a start that failed."""
    pci: str = "/sys/bus/pci/devices"
    """Where the kernel shows PCI devices."""


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """Look now."""

    pcie: bool = False
    """Also what goes over PCIe, which the driver counts for 20 ms a direction and device."""


class Look(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is known. While calls do not come back there may be several for one `Ask`."""

    done: bool = True
    """The last one for this `Ask`."""
    seconds: float = 0.0
    """Since the `Ask`."""
    problem: str | None = None
    """Why there are no devices at all, or not all that there were."""
    harmless: bool = False
    """The problem is only that there is no GPU to look at: nothing to mend."""
    final: bool = False
    """Asking again is of no use."""
    driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    mig_instances: tuple[MigInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
