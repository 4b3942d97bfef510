"""Whether NVIDIA's GPUs are suspended: initialising the library would wake them, which drains a laptop's battery.

Source: the kernel's view of PCI devices (ABI/testing/sysfs-bus-pci and sysfs-devices-power of its documentation).
"""

from __future__ import annotations

import os

NVIDIA, DISPLAY_CLASS = "0x10de", "0x03"
"""Vendor and class of NVIDIA's GPUs, with a display or without."""


def gpus(pci: str) -> list[str]:
    """The folder of each NVIDIA GPU; empty where the kernel shows no PCI devices, as in WSL."""
    try:
        folders = [os.path.join(pci, name) for name in sorted(os.listdir(pci))]
    except OSError:
        return []
    return [
        folder
        for folder in folders
        if _word(folder, "vendor") == NVIDIA and _word(folder, "class")[:4] == DISPLAY_CLASS
    ]


def all_sleep(folders: list[str]) -> bool:
    """There are GPUs, and all of them are suspended."""
    return bool(folders) and all(_word(folder, "power/runtime_status") == "suspended" for folder in folders)


def _word(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return ""
