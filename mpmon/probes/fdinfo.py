"""What the kernel tells of one open file description: proc_pid_fdinfo(5)."""

from __future__ import annotations

from mpmon.probes.files import Proc


def fdinfo_lines(proc: Proc, pid: int, descriptor: int) -> list[str]:
    """The lines of the file; none if it cannot be read, or the descriptor is closed."""
    try:
        return proc.text(pid, "fdinfo", descriptor).splitlines()
    except OSError:
        return []


def fdinfo_fields(proc: Proc, pid: int, descriptor: int) -> dict[str, str]:
    """The same by name; of a repeated name, the last."""
    lines = fdinfo_lines(proc, pid, descriptor)
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
