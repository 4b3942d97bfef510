"""The processes below one, found in proc_pid_stat(5) and killed without ever hitting a recycled pid.

Standard library only.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = "/dev/shm/"


class ProcessEntry(NamedTuple):
    """One process: pid and start time together identify it for good."""

    pid: int
    ppid: int
    start_ticks: int


def read_process(pid: int) -> ProcessEntry | None:
    """One process, `None` when it is gone. Fields 4 and 22 of proc_pid_stat(5), counted behind the name's last `)`."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ProcessEntry(pid, int(fields[1]), int(fields[19]))


def descendants(ancestor: int) -> tuple[ProcessEntry, ...]:
    """Everything below a process, in whatever session or process group."""
    everyone = [process for name in os.listdir("/proc") if name.isdigit() and (process := read_process(int(name)))]
    children: dict[int, list[ProcessEntry]] = {}
    for process in everyone:
        children.setdefault(process.ppid, []).append(process)
    found: list[ProcessEntry] = []
    parents = [ancestor]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [process.pid for process in below]
    return tuple(found)


def kill(process: ProcessEntry) -> None:
    """SIGKILL, which ends stopped processes too (signal(7)), to this process and to no later one with its pid."""
    if not hasattr(os, "pidfd_open"):  # built against headers older than Linux 5.3
        if start_ticks_of(process.pid) == process.start_ticks:
            os.kill(process.pid, signal.SIGKILL)
        return
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if start_ticks_of(process.pid) == process.start_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


def start_ticks_of(pid: int) -> int | None:
    """Start time in clock ticks since boot, `None` when the process is gone."""
    process = read_process(pid)
    return process.start_ticks if process else None


def mapped_shared_inodes(pid: int) -> set[int]:
    """Inodes of the files of /dev/shm that a process maps (proc_pid_maps(5)).

    Not their names: sem_open(3) of glibc maps a new semaphore under a temporary name that is gone when the
    call returns.
    """
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    mappings = (line.split(maxsplit=5) for line in lines if SHARED_MEMORY in line)
    return {int(fields[4]) for fields in mappings if len(fields) == 6 and fields[5].startswith(SHARED_MEMORY)}


def shared_names() -> dict[str, int]:
    """The names in /dev/shm with their inodes; none where it is not mounted."""
    try:
        with os.scandir(SHARED_MEMORY) as entries:
            return {entry.path: entry.inode() for entry in entries}
    except FileNotFoundError:
        return {}
