"""A quick read of a job's processes for the first picture: one `stat` each, and the commands of those shown."""

from __future__ import annotations

from mpmon.probes.files import sleeps_in_kernel
from mpmon.probes.stat import Stat
from mpmon.probes.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.files import Proc

COMMAND_LIMIT = 1 << 12
"""Bytes: more than a line of any terminal."""


class Glance:
    """One moment of a job."""

    def __init__(self, proc: Proc, root_pid: int) -> None:
        """Empty if there is no such process."""
        self._proc = proc
        root = Stat.read(proc, root_pid)
        stats = {pid: stat for pid in proc.pids() if (stat := Stat.read(proc, pid))} if root else {}
        self.processes = {pid: stats[pid] for pid in Tree(proc, root_pid, root).joining(stats, ())} if root else {}
        """By pid, parents before their children."""

    def cmdline(self, pid: int) -> tuple[str, ...]:
        """The arguments of a process; empty if there are none, or if they cannot be read, or only by waiting."""
        if sleeps_in_kernel(self._proc.path(pid)):
            return ()
        try:
            text = self._proc.text(pid, "cmdline", limit=COMMAND_LIMIT)
        except OSError:
            return ()
        return tuple(text.rstrip("\0").split("\0")) if text else ()
