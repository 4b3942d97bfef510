"""Who has the lock of a file: by proc_locks(5) of the whole machine, and by the `lock:` lines of proc_pid_fdinfo(5).

A lock of flock(2) belongs to the open file description, which children inherit; /proc/locks names the process that took it
for as long as it lasts, also after that one has closed the file and only a child still has it open.
"""

from __future__ import annotations

from mpmon.probes.fdinfo import fdinfo_lines
from mpmon.probes.files import Proc

LOCKS_LIMIT = 1 << 20
"""Bytes of /proc/locks that are read."""


def file_locks(proc: Proc) -> dict[str, tuple[int, ...]]:
    """The pids that took the locks of a file, by its id, `file:DEV:INODE`."""
    holders: dict[str, tuple[int, ...]] = {}
    try:
        lines = proc.text("locks", limit=LOCKS_LIMIT).splitlines()
    except OSError:
        return holders
    for line in lines:
        fields = line.split()
        # A line with "->" waits for the lock named before it.
        if len(fields) < 6 or fields[1] == "->":
            continue
        name = "file:" + fields[5]
        holders[name] = (*holders.get(name, ()), int(fields[4]))
    return holders


def has_lock(proc: Proc, pid: int, descriptor: int) -> bool:
    """Whether a lock was granted to this open file; not, while it still waits for one, and not where it may not be read."""
    return any(line.startswith("lock:") for line in fdinfo_lines(proc, pid, descriptor))
