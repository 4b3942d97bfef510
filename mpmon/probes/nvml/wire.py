"""The protocol between the loop and the helper: one line of JSON per message, with rows of the model inside."""

from __future__ import annotations

import msgspec

from mpmon.model import Gpu, GpuProcess, MigInstance


class Settings(msgspec.Struct, frozen=True):
    """The helper's time limits, and how often it queries what. Seconds."""

    deadline_s: float = 1.0
    """A call that takes longer is abandoned together with its device."""
    start_deadline_s: float = 5.0
    """The same for initialisation: without persistence mode the driver wakes GPUs for it, which takes seconds."""
    lists_every_s: float = 0.95
    """Between two reads of a device's process lists: once a second, also when a round comes a little early."""
    slowly_every_s: float = 5.0
    """Between two reads of slowly changing values: temperature, clocks, errors, modes, lists that were empty."""
    retry_s: float = 30.0
    """Pause after an initialisation that failed."""
    pci: str = "/sys/bus/pci/devices"
    """Where the kernel shows PCI devices."""


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to look now."""

    pcie: bool = False
    """Also read PCIe throughput, for which the driver counts for 20 ms per direction and device."""


class Look(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An answer: what is known. While calls do not return there may be several for one `Ask`."""

    done: bool = True
    """The last one for this `Ask`."""
    seconds: float = 0.0
    """Since the `Ask`."""
    problem: str | None = None
    """Why there are no devices, or fewer than before."""
    harmless: bool = False
    """The problem is only that there is no GPU to look at: nothing to fix."""
    final: bool = False
    """Asking again is pointless."""
    driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    mig_instances: tuple[MigInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
