"""The kernel's threads of a process, for matching Python's: by the id the thread itself was told, else by its pthread id."""

from __future__ import annotations

from mpmon.probes.files import Proc
from mpmon.probes.stacks import ThreadIds, run_counters


class Tids:
    """The threads of one process at one moment."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self.pid = pid
        self._proc = proc
        self._before = run_counters(proc, pid)
        self._ids = ThreadIds(proc, pid)

    def of(self, ident: int, native_id: int | None) -> int | None:
        """The kernel's id of a Python thread, `None` where it has ended."""
        return self._ids.of("", ident, native_id)

    def moved(self) -> set[int]:
        """Threads that ran since this object was made."""
        after = run_counters(self._proc, self.pid)
        return {tid for tid in self._before | after if self._before.get(tid) != after.get(tid)}
