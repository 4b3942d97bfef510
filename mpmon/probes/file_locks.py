"""Holders of file locks, and files with a lease: by proc_locks(5) of the whole machine, and by the `lock:` lines of
proc_pid_fdinfo(5).

A lock of flock(2) belongs to the open file description, which children inherit; /proc/locks names the process that took it
for as long as the lock lasts, even after that process has closed the file and only a child still has it open.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from mpmon.probes.fdinfo import fdinfo_lines
from mpmon.probes.files import Proc

LOCKS_LIMIT = 1 << 20
"""Most bytes read of /proc/locks."""

GOOD_FOR_S = 1e-6
"""How long /proc/locks stays valid after a read, per byte: next to nothing for few locks, while a machine with thousands of
locks need not format them all for each file.
"""


class Taken(NamedTuple):
    """The processes that took the locks of one file."""

    holders: tuple[int, ...] = ()
    """Pids, one for each lock: fcntl(2) locks ranges of a file."""
    sharers: tuple[int, ...] = ()
    """Those of them that have only read locks."""


def file_locks(proc: Proc) -> dict[str, Taken]:
    """The processes that took the locks of each file, by its id, `file:DEV:INODE`."""
    found: dict[str, list[tuple[int, bool]]] = {}
    try:
        lines = proc.text("locks", limit=LOCKS_LIMIT).splitlines()
    except OSError:
        return {}
    for line in lines:
        fields = line.split()
        # A line with "->" waits for the lock named before it.
        if len(fields) < 6 or fields[1] == "->":
            continue
        found.setdefault("file:" + fields[5], []).append((int(fields[4]), fields[3] == "READ"))
    return {name: _taken(rows) for name, rows in found.items()}


def _taken(rows: list[tuple[int, bool]]) -> Taken:
    writers = {pid for pid, shared in rows if not shared}
    return Taken(tuple(pid for pid, _ in rows), tuple(dict.fromkeys(pid for pid, _ in rows if pid not in writers)))


class Leases:
    """Files that cannot be opened without disturbing the holder of a lease: fcntl(2), F_SETLEASE."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._inodes: frozenset[int] = frozenset()
        self._good_until = float("-inf")

    def inodes(self) -> frozenset[int]:
        """Their inode numbers, and perhaps 0.

        Not their devices: on some file systems (btrfs, overlay) stat(2) tells another device than /proc/locks. A file
        wrongly taken to have a lease is merely not read.
        """
        now = time.monotonic()
        if now >= self._good_until:
            text = self._text()
            self._inodes = frozenset(map(_leased, text.splitlines()))
            self._good_until = now + GOOD_FOR_S * len(text)
        return self._inodes

    def _text(self) -> bytes:
        try:
            return self._proc.read("locks", limit=LOCKS_LIMIT)
        except OSError:
            return b""


def _leased(line: bytes) -> int:
    """The inode of a lease; 0, which no file has, for any other lock, and for a read lease, which only a writer breaks."""
    fields = line.split()
    if b"LEASE" not in fields[1:2] or fields[2:4] == [b"ACTIVE", b"READ"]:
        return 0
    number = b"".join(fields[5:6]).rpartition(b":")[2]
    return int(number) if number.isdigit() else 0


def has_lock(proc: Proc, pid: int, descriptor: int) -> bool:
    """Whether a lock was granted to this open file; false while it still waits for one, and if that cannot be read."""
    return any(line.startswith("lock:") for line in fdinfo_lines(proc, pid, descriptor))
