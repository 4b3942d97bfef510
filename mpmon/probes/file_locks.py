"""Which open file has a lock: the `lock:` lines of proc_pid_fdinfo(5).

A lock of flock(2) belongs to the open file, which children inherit; /proc/locks names the process that took it for as long
as it lasts, also after that one has closed the file and only a child still has it open.
"""

from __future__ import annotations

from mpmon.probes.files import Proc


def has_lock(proc: Proc, pid: int, descriptor: int) -> bool:
    """Whether a lock was granted to this open file; not, while it still waits for one, and not where it may not be read."""
    try:
        lines = proc.text(pid, "fdinfo", descriptor).splitlines()
    except OSError:
        return False
    return any(line.startswith("lock:") for line in lines)
