"""File locks that a thread may be retrying: the kernel names no waiter of a lock that is only tried again and again."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.snapshot_index import SnapshotIndex
from mpmon.model import Blocked, KernelObject

SHARED_MEMORY = "-shm"
"""Ends the name of the file in which SQLite has the locks of a database that writes ahead; it is opened once for all."""


def polled_locks(tables: SnapshotIndex, key: ThreadKey, kind: Wait) -> list[KernelObject]:
    """File locks that a thread in a wait of this kind may be retrying: in the sleep of a library such as SQLite, those on
    files its process has open; in `acquire` of filelock, which closes the file between attempts, those of other processes on
    any file.
    """
    if key not in tables.stacks or not tables.locked_files:
        return []
    if kind is Wait.FILE_LOCK:
        return [item for item in tables.locked_files if _is_kept(item, key[0])]
    if not _sleeps_in_library(tables.blocked.get(key)):
        return []
    return locks_of_others(tables, key[0]) or own_locks(tables, key[0])


def locks_of_others(tables: SnapshotIndex, pid: int) -> list[KernelObject]:
    """File locks that other processes hold on files a process has open, except those inherited through a fork."""
    files = tables.held_by.get(pid, frozenset())
    locks = [item for item in tables.locked_files if _is_kept(item, pid) and item.id in files]
    return [item for item in locks if not (tables.is_forked(pid) and _has_from_parent(tables, pid, item))]


def own_locks(tables: SnapshotIndex, pid: int) -> list[KernelObject]:
    """Exclusive locks of a process on files that it has opened more than once: flock(2) keeps its open files from each other, and
    SQLite does so with the connections of a process by itself (sqlite3.org, os_unix.c: Posix Advisory Locking).
    """
    rows = (tables.holders.get(item.id, ()) for item in tables.locked_files)
    opens = Counter(row.path for row in chain.from_iterable(rows) if row.pid == pid and row.fd is not None)
    locks = (item for item in tables.locked_files if pid in item.holders and pid not in item.sharers)
    return [item for item in locks if item.path and opens[item.path.removesuffix(SHARED_MEMORY)] > 1]


def _has_from_parent(tables: SnapshotIndex, pid: int, item: KernelObject) -> bool:
    """The parent has the file under the same descriptor numbers, so the child has not opened the file itself."""
    rows, parent = tables.holders.get(item.id, ()), tables.processes[pid].ppid
    return {row.fd for row in rows if row.pid == pid} <= {row.fd for row in rows if row.pid == parent}


def _is_kept(item: KernelObject, pid: int) -> bool:
    """Other processes hold the lock; this process holds it at most as a shared lock."""
    return bool(item.kept_by(pid)) and (pid not in item.holders or pid in item.sharers)


def _sleeps_in_library(blocked: Blocked | None) -> bool:
    """In usleep(3) or the like: Python's `time.sleep` has an absolute deadline, or is a `select` (Modules/timemodule.c)."""
    if blocked is None or blocked.syscall not in ("nanosleep", "clock_nanosleep"):
        return False
    return blocked.syscall == "nanosleep" or blocked.args[1:2] == (0,)
