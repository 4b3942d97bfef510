"""The processes below one, found in proc_pid_stat(5) and ended without ever hitting a recycled pid.

Standard library only.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = "/dev/shm/"


class Kin(NamedTuple):
    """One process: a pid together with its start time names it for good."""

    pid: int
    ppid: int
    start_ticks: int


def read_kin(pid: int) -> Kin | None:
    """One process, `None` when it is gone. Fields 4 and 22 of proc_pid_stat(5), counted behind the name's last `)`."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Kin(pid, int(fields[1]), int(fields[19]))


def descendants(ancestor: int) -> tuple[Kin, ...]:
    """Everything below a process, in whatever session or process group."""
    everyone = [kin for name in os.listdir("/proc") if name.isdigit() and (kin := read_kin(int(name)))]
    children: dict[int, list[Kin]] = {}
    for kin in everyone:
        children.setdefault(kin.ppid, []).append(kin)
    found: list[Kin] = []
    parents = [ancestor]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [kin.pid for kin in below]
    return tuple(found)


def kill(kin: Kin) -> None:
    """SIGKILL, which ends stopped processes too (signal(7)), to this process and to no later one with its pid."""
    if not hasattr(os, "pidfd_open"):  # built against headers older than Linux 5.3
        if read_kin_start(kin.pid) == kin.start_ticks:
            os.kill(kin.pid, signal.SIGKILL)
        return
    try:
        pidfd = os.pidfd_open(kin.pid)
    except ProcessLookupError:
        return
    try:
        if read_kin_start(kin.pid) == kin.start_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


def read_kin_start(pid: int) -> int | None:
    """Start time in clock ticks since boot, `None` when the process is gone."""
    kin = read_kin(pid)
    return kin.start_ticks if kin else None


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
