"""The file systems that the processes of a job see at /dev/shm: statvfs(3) through /proc/PID/root.

Each container has its own, by default of 64 MiB in Docker; processes that see different ones cannot open each other's
files.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from mpmon.model import Process, SharedMemory
from mpmon.probes.door import FOLDER, Place, opened, seen_by
from mpmon.probes.files import Proc
from mpmon.rows import shared_by


class FileSystems:
    """One row for each of them, from round to round."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._devices: dict[tuple[int, float], int | None] = {}
        self._members: dict[int, tuple[int, ...]] = {}
        self.rows: tuple[SharedMemory, ...] = ()

    def note(self, processes: Collection[Process]) -> None:
        """Update the processes to be checked for their /dev/shm; all others are gone."""
        before, self._devices = self._devices, {}
        for process in processes:
            key = process.key
            self._devices[key] = before[key] if key in before else shm_device(self._proc, process.pid)
        if self._devices != before:
            self._members = {
                device: tuple(sorted(pid for (pid, _), seen in self._devices.items() if seen == device))
                for device in sorted({device for device in self._devices.values() if device is not None})
            }

    def refresh(self) -> None:
        """Read size and use."""
        rows = tuple(row for device, pids in self._members.items() if (row := self._row(device, pids)))
        self.rows = shared_by(lambda row: row.device, rows, self.rows)

    def _row(self, device: int, pids: tuple[int, ...]) -> SharedMemory | None:
        for pid in pids:
            try:
                with opened(shm_of(self._proc, pid), FOLDER) as folder:
                    found = os.fstatvfs(folder)
            except OSError:
                continue
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            return SharedMemory(
                device=device, pids=pids, size_bytes=found.f_blocks * found.f_frsize, used_bytes=used
            )  # fmt: skip
        return None


def shm_of(proc: Proc, pid: int) -> Place:
    """/dev/shm as a process sees it."""
    return seen_by(proc, pid, "/dev/shm")


def shm_device(proc: Proc, pid: int) -> int | None:
    """The device of /dev/shm as a process sees it; `None` if it cannot be read."""
    try:
        with opened(shm_of(proc, pid), FOLDER) as folder:
            return os.fstat(folder).st_dev
    except OSError:
        return None
