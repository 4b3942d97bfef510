"""How much the threads of one process ran: `schedstat`, or if the kernel has none, `status` and `stat`."""

from __future__ import annotations

from mpmon.model import Thread
from mpmon.probes.files import Proc
from mpmon.probes.stat import Stat
from mpmon.probes.status import status_fields


class Threads:
    """The threads of one process from round to round."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc = proc
        self._pid = pid
        self._counters: dict[int, _Counters] = {}
        self.rows: tuple[Thread, ...] = ()
        """The same tuple object as long as no thread ran, began or ended."""
        self._others_ns: int | None = None
        """CPU time of all other threads, also ended ones, by the clock of the process when all files were last read."""

    def __len__(self) -> int:
        return len(self._counters)

    def refresh(self, expected: int, clock: int | None = None) -> bool:
        """Read again the threads that may have run; whether any ran, began or ended. They are listed again if there are
        not `expected` of them.

        `clock` is the CPU time of all threads together, nanoseconds, read just before. It is the sum of the times in
        their files (`thread_group_cputime` of kernel/sched/cputime.c): if the main thread accounts for all new time,
        the others need not be read. For DataLoader workers, which wake, check and sleep again, that saves half of the
        files.
        """
        changed = len(self._counters) != expected and self._list()
        main = self._counters.get(self._pid)
        outcomes = [main.refresh()] if main else []
        if changed or main is None or clock is None or clock - main.row.run_ns != self._others_ns:
            # All of them: if one has ended, others may have run too.
            outcomes += [counters.refresh() for counters in self._counters.values() if counters is not main]
            self._others_ns = clock - main.row.run_ns if main and clock is not None else None
        if None in outcomes:
            self._list()
        changed |= any(outcome is not False for outcome in outcomes)
        if changed:
            self._join()
        return changed

    def refresh_names(self) -> None:
        """Read the names again: torch and libraries set them after a thread has started."""
        renamed = [counters.refresh_name() for counters in self._counters.values()]
        if any(renamed):
            self._join()

    def drop(self) -> None:
        """Drop all threads: the process has ended."""
        self.close()
        self._counters = {}
        self.rows = ()

    def close(self) -> None:
        """Close every kept descriptor."""
        for counters in self._counters.values():
            counters.close()

    def _list(self) -> bool:
        """List the threads; whether they are others than before."""
        try:
            tids = self._proc.tids(self._pid)
        except OSError:
            return False
        before = self._counters
        self._counters = {tid: before.get(tid) or _Counters(self._proc, self._pid, tid) for tid in tids}
        for tid in before.keys() - self._counters.keys():
            before[tid].close()
        for tid in self._counters.keys() - before.keys():
            self._counters[tid].refresh()
        return before.keys() != self._counters.keys()

    def _join(self) -> None:
        self.rows = tuple(counters.row for counters in self._counters.values())


class _Counters:
    """One thread's row."""

    def __init__(self, proc: Proc, pid: int, tid: int) -> None:
        self._proc = proc
        self._pid, self._tid = pid, tid
        self._path = proc.path(pid, "task", tid, "schedstat")
        self._text = b""
        self.row = Thread(pid=pid, tid=tid, name=self._name(), run_ns=0, slices=0)

    def refresh(self) -> bool | None:
        """Whether the thread ran since the last reading; `None` when it is gone."""
        try:
            text = self._proc.reread(self._path)
        except OSError:
            return self._refresh_without_schedstat()
        if text == self._text:
            return False
        self._text = text
        run, wait, slices = (int(field) for field in text.split()[:3])
        self.row = Thread(pid=self._pid, tid=self._tid, name=self.row.name, run_ns=run, wait_ns=wait, slices=slices)
        return True

    def refresh_name(self) -> bool:
        """Read the name; whether it has changed."""
        name, row = self._name(), self.row
        if not name or name == row.name:
            return False
        self.row = Thread(
            pid=row.pid, tid=row.tid, name=name, run_ns=row.run_ns, wait_ns=row.wait_ns, slices=row.slices
        )
        return True

    def close(self) -> None:
        self._proc.forget(self._path)

    def _refresh_without_schedstat(self) -> bool | None:
        """For kernels without scheduler statistics: switch counters and ticks of `status` and `stat`."""
        try:
            status = status_fields(self._proc.text(self._pid, "task", self._tid, "status"))
            ticks = Stat(self._proc.read(self._pid, "task", self._tid, "stat")).cpu_s
        except (OSError, ValueError, IndexError):
            return None
        slices = sum(int(status.get(f"{kind}_ctxt_switches", "0")) for kind in ("voluntary", "nonvoluntary"))
        row = Thread(pid=self._pid, tid=self._tid, name=self.row.name, run_ns=int(ticks * 1e9), slices=slices)
        changed = row != self.row
        self.row = row if changed else self.row
        return changed

    def _name(self) -> str:
        try:
            return self._proc.text(self._pid, "task", self._tid, "comm").rstrip("\n")
        except OSError:
            return ""
