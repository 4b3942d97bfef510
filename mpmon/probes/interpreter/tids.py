"""The kernel's threads of a process, for matching Python's: by the id the thread itself was told, else by its pthread id.

In a pid namespace a thread is told its id in there; `NSpid` of proc_pid_status(5) translates.
"""

from __future__ import annotations

from functools import cached_property

from mpmon.probes.files import Proc
from mpmon.probes.stacks import ThreadIds, run_counters


class Tids:
    """The threads of one process at one moment."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self.pid = pid
        self._proc = proc
        self._before = run_counters(proc, pid)

    def of(self, ident: int, native_id: int | None) -> int | None:
        """The kernel's id of a Python thread, `None` where it has ended."""
        if native_id is None:
            return ThreadIds(self._proc, self.pid, self._before).of("", ident)
        return native_id if native_id in self._before else self._by_inner_id.get(native_id)

    def moved(self) -> set[int]:
        """Threads that ran since this object was made."""
        after = run_counters(self._proc, self.pid)
        return {tid for tid in self._before | after if self._before.get(tid) != after.get(tid)}

    @cached_property
    def _by_inner_id(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for tid in self._before:
            try:
                status = self._proc.text(self.pid, "task", tid, "status")
            except OSError:
                continue
            ids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
            if len(ids) > 1:
                found[int(ids[-1])] = tid
        return found
