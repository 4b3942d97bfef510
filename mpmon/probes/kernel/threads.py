"""What each thread is blocked in: one row a thread, with rows of what it waits on and of what its process has."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from mpmon.model import Blocked, Handle, KernelObject, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.kernel.call import Call
from mpmon.probes.kernel.clocks import Clocks
from mpmon.probes.kernel.holdings import Holdings
from mpmon.probes.kernel.waited import WaitedObjects
from mpmon.probes.memory import Memory
from mpmon.probes.syscalls import SYSCALLS


class KernelLook:
    """One look at the threads of some processes; the tables are filled by `look`."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._clocks = Clocks(proc, now)
        self._waited = WaitedObjects(proc, now)
        self.blocked: dict[int, tuple[Blocked, ...]] = {}
        self.handles: dict[int, tuple[Handle, ...]] = {}
        self.objects: dict[str, KernelObject] = {}
        self.locked: dict[int, tuple[str, ...]] = {}
        """Ids of the files a process has open on which somebody has a lock."""
        self.unknowns: dict[int, Unknown] = {}

    def look(self, pids: Iterable[int]) -> None:
        """Fill the tables for these processes; one that vanishes meanwhile leaves no rows."""
        for pid in pids:
            try:
                self._look_at(pid)
            except (ProcessLookupError, FileNotFoundError):
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason="ended", gone=True)
            except OSError as problem:
                reason = problem.strerror or "unreadable"
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason=reason.lower())

    def _look_at(self, pid: int) -> None:
        holdings = Holdings(self._proc, pid)
        if holdings.problem:
            self.unknowns[pid] = Unknown(table="handles", pid=pid, reason=holdings.problem)
        with self._memory(pid) as memory:
            self.blocked[pid] = tuple(self._thread(tid, holdings, memory) for tid in self._proc.tids(pid))
        self.handles[pid] = holdings.handles()
        self._note_locked(holdings)

    def _memory(self, pid: int) -> AbstractContextManager[Memory | None]:
        """The memory of a process; nothing where it may not be read."""
        try:
            return Memory(self._proc, pid)
        except (PermissionError, FileNotFoundError):
            return nullcontext()

    def _note_locked(self, holdings: Holdings) -> None:
        """Who polls for a lock waits for it too, and no system call tells."""
        locked = [row for row in holdings.opened if row.object in self._waited.file_locks]
        for row in locked:
            holders = self._waited.file_locks[row.object]
            self.objects.setdefault(
                row.object, KernelObject(id=row.object, kind="file lock", path=row.path, holders=holders)
            )
        self.locked[holdings.pid] = tuple(row.object for row in locked)

    def _thread(self, tid: int, holdings: Holdings, memory: Memory | None) -> Blocked:
        pid = holdings.pid
        stat = self._proc.read(pid, "task", tid, "stat")
        state = stat[stat.rindex(b")") + 2 :][:1].decode()
        name, args = self._syscall(pid, tid)
        call = Call(name, args, memory)
        ran_at = self._clocks.ran_at(pid, tid)
        timeout = call.timeout()
        found = list(self._waited.of(call, holdings)) if state in "SD" else []
        for item in found:
            self.objects[item.id] = item
        return Blocked(
            pid=pid, tid=tid, state=state, syscall=name, args=args, wchan=self._wchan(pid, tid),
            ran_at=ran_at, timeout_s=timeout, wakes_at=self._clocks.wakes_at(call, ran_at),
            waits_on=tuple(item.id for item in found), writes=call.writes(),
        )  # fmt: skip

    def _syscall(self, pid: int, tid: int) -> tuple[str | None, tuple[int, ...]]:
        """Name and arguments of the call a thread is in; no name where there is none, or it may not be read."""
        try:
            fields = self._proc.text(pid, "task", tid, "syscall").split()
        except OSError as problem:
            if isinstance(problem, PermissionError):
                self.unknowns.setdefault(
                    pid, Unknown(table="blocked", pid=pid, reason="the system call may not be read (ptrace right)")
                )
            return None, ()
        if not fields or fields[0] == "running":
            return "running", ()
        number = int(fields[0])
        args = tuple(int(field, 16) for field in fields[1:])
        if number < 0:
            return None, args
        return SYSCALLS.get(number, f"syscall {number}"), args

    def _wchan(self, pid: int, tid: int) -> str | None:
        try:
            text = self._proc.text(pid, "task", tid, "wchan")
        except OSError:
            return None
        # "0" means running, or not allowed to know.
        return text if text not in ("", "0") else None
