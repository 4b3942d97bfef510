"""What each thread is blocked in: one row per thread, with rows for what it waits on and what its process has open."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import msgspec

from mpmon.model import NAMELESS_CALLS, Blocked, Handle, KernelObject, Unknown
from mpmon.probes.aside import Unanswered, in_turn, may_hang
from mpmon.probes.files import Proc, sleeps_in_kernel
from mpmon.probes.kernel.call import Call
from mpmon.probes.kernel.clocks import Clocks
from mpmon.probes.kernel.holdings import Holdings, ServedFile
from mpmon.probes.kernel.waited import WaitedObjects, locked_file, served_mounts
from mpmon.probes.memory import Memory, may_be_read
from mpmon.probes.syscalls import SYSCALLS

ASKS_SERVER = (
    "request_wait_answer", "fuse_", "folio_wait", "__folio_lock", "filemap_fault", "rpc_", "nfs", "cifs_", "smb",
    "wait_for_response", "ceph_", "p9_client_", "ldlm_", "ptlrpc_", "osc_", "vvp_",
)  # fmt: skip
"""Prefixes of the kernel functions in which a thread waits for the server of a file system (proc_pid_wchan(5)):
fs/fuse, mm/filemap.c, net/sunrpc, fs/nfs, fs/smb/client, fs/ceph, net/9p, Lustre's client.
"""


class ProcessRows(msgspec.Struct, kw_only=True):
    """The result of one look at one process."""

    blocked: tuple[Blocked, ...] = ()
    handles: tuple[Handle, ...] = ()
    objects: tuple[KernelObject, ...] = ()
    locked: tuple[str, ...] = ()
    """Ids of open files of the process that some process has locked."""
    served: tuple[ServedFile, ...] = ()
    unknown: Unknown | None = None


class KernelLook:
    """One look at the threads of some processes; the tables are filled by `look`."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._now = now
        self.blocked: dict[int, tuple[Blocked, ...]] = {}
        self.handles: dict[int, tuple[Handle, ...]] = {}
        self.objects: dict[str, KernelObject] = {}
        self.locked: dict[int, tuple[str, ...]] = {}
        """Ids of a process's open files that some process has locked."""
        self.served: dict[int, tuple[ServedFile, ...]] = {}
        """Files of a process on externally served file systems, one per file system."""
        self.unknowns: dict[int, Unknown] = {}

    def look(self, pids: Iterable[int]) -> None:
        """Fill the tables for these processes; one that vanishes meanwhile leaves no rows."""
        found = in_turn(look_at, self._proc, {pid: {"now": self._now} for pid in pids})
        for pid, rows in found.items():
            try:
                self._take(pid, rows if rows is not None else self._look_with_care(pid))
            except (ProcessLookupError, FileNotFoundError):
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason="ended", gone=True)
            except OSError as problem:
                reason = problem.strerror or "unreadable"
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason=reason.lower())

    def _look_with_care(self, pid: int) -> ProcessRows | None:
        """Look at a process with a thread asleep in the kernel. The thread may hold the lock of the mappings, for
        example while it waits for a file system in mmap(2); then the memory is not read.
        """
        with_memory = True
        try:
            may_be_read(self._proc, pid)
        except Unanswered:
            with_memory = False
        except OSError:
            pass  # `look_at` reports why
        return look_at(self._proc, pid, self._now, with_memory)

    def _take(self, pid: int, rows: ProcessRows | OSError | None) -> None:
        if isinstance(rows, OSError):
            raise rows
        if rows is None:
            return
        self.blocked[pid], self.handles[pid] = rows.blocked, rows.handles
        self.locked[pid], self.served[pid] = rows.locked, rows.served
        self.objects.update((item.id, item) for item in rows.objects)
        if rows.unknown:
            self.unknowns[pid] = rows.unknown


@may_hang
def look_at(proc: Proc, pid: int, now: float, with_memory: bool | None = None) -> ProcessRows | None:  # noqa: FBT001
    """One look at one process, without its memory if that must not be read.

    `None` if `with_memory` is not given and the memory may be unreadable: a thread sleeps in the kernel.

    Raises:
        OSError: the process is gone, or cannot be read.
    """
    if with_memory is None and sleeps_in_kernel(proc.path(pid)):
        return None
    return _OneProcess(proc, pid, _moment(proc, now), with_memory=with_memory is not False).rows()


class _Moment:
    """The objects shared by the looks at all processes of one round."""

    def __init__(self, proc: Proc, now: float) -> None:
        self.clocks = Clocks(proc, now)
        self.waited = WaitedObjects(proc, now)


@lru_cache(maxsize=1)
def _moment(proc: Proc, now: float) -> _Moment:
    return _Moment(proc, now)


MOST_TRIES = 3
"""Most looks at a thread that runs between the beginning and the end of each; then it is one that runs."""

_CPU = 36
"""Position after the name, in proc_pid_stat(5), of the CPU that a thread last ran on."""

_FUTEX_PRIVATE = 0x80
"""linux/futex.h. To join a thread, glibc waits in a shared futex, as the kernel wakes it (pthread_join_common.c)."""


def _with_joined(row: Blocked, tids: Container[int]) -> Blocked:
    """The row with the thread of the same process that the thread joins, if any."""
    _, operation, expected, *_ = (*row.args, 0, 0, 0)
    joins = row.syscall == "futex" and not operation & _FUTEX_PRIVATE and expected in tids and expected != row.tid
    return msgspec.structs.replace(row, joins=expected) if joins else row


class _OneProcess:
    def __init__(self, proc: Proc, pid: int, moment: _Moment, *, with_memory: bool) -> None:
        self._proc = proc
        self._with_memory = with_memory
        self._clocks, self._waited = moment.clocks, moment.waited
        self._objects: dict[str, KernelObject] = {}
        self._holdings = Holdings(proc, pid, with_mappings=with_memory)
        problem = self._holdings.problem
        self._unknown = Unknown(table="handles", pid=pid, reason=problem) if problem else None
        self._pid = pid

    def rows(self) -> ProcessRows:
        """All rows of the process."""
        with self._memory(self._pid) as memory:
            tids = self._proc.tids(self._pid)
            blocked = tuple(_with_joined(self._thread(tid, self._holdings, memory), tids) for tid in tids)
        locked = self._note_locked(self._holdings)
        self._holdings.note_mappings()
        return ProcessRows(
            blocked=blocked, handles=self._holdings.handles(), objects=tuple(self._objects.values()), locked=locked,
            served=tuple(self._holdings.used.values()), unknown=self._unknown,
        )  # fmt: skip

    def _memory(self, pid: int) -> AbstractContextManager[Memory | None]:
        """The memory of a process; nothing if it cannot be read."""
        if not self._with_memory:
            return nullcontext()
        try:
            return Memory(self._proc, pid)
        except (PermissionError, FileNotFoundError):
            return nullcontext()

    def _note_locked(self, holdings: Holdings) -> tuple[str, ...]:
        """Note locked files: a thread that polls for a lock waits for it too, although no system call shows it."""
        locked = [row for row in holdings.opened if row.object in self._waited.file_locks]
        for row in locked:
            self._objects.setdefault(row.object, locked_file(row.object, row.path, self._waited.file_locks))
        return tuple(row.object for row in locked)

    def _thread(self, tid: int, holdings: Holdings, memory: Memory | None) -> Blocked:
        """One moment of a thread: one that ran in between may have left the call whose arguments were read in its memory."""
        if memory is None:
            return self._noted(*self._look(tid, holdings, memory))
        counter = self._proc.path(self._pid, "task", tid, "schedstat")
        stays = self._proc.kept(counter) is not None
        try:
            runs = self._runs(counter)
            for _ in range(MOST_TRIES):
                before = runs
                row, objects = self._look(tid, holdings, memory)
                runs = self._runs(counter)
                if runs == before:
                    return self._noted(row, objects)
        finally:
            if not stays:
                self._proc.forget(counter)
        return Blocked(pid=self._pid, tid=tid, state="R", syscall="running")

    def _noted(self, row: Blocked, objects: Iterable[KernelObject]) -> Blocked:
        self._objects.update((item.id, item) for item in objects)
        return row

    def _runs(self, counter: str) -> bytes | None:
        """The number of times the thread has run; `None` on a kernel that does not count them."""
        try:
            return self._proc.reread(counter).rpartition(b" ")[2]
        except OSError:
            return None

    def _look(self, tid: int, holdings: Holdings, memory: Memory | None) -> tuple[Blocked, list[KernelObject]]:
        pid = holdings.pid
        stat = self._proc.read(pid, "task", tid, "stat")
        fields = stat[stat.rindex(b")") + 2 :].split()
        state, cpu = fields[0].decode(), int(fields[_CPU]) if len(fields) > _CPU else None
        name, args = self._syscall(pid, tid)
        call = Call(name, args, memory)
        ran_at = self._clocks.ran_at(pid, tid, cpu)
        timeout = call.timeout()
        wchan = self._wchan(pid, tid)
        found = list(self._waits_on(tid, call, state, wchan or ""))
        row = Blocked(
            pid=pid, tid=tid, state=state, syscall=name, args=args, wchan=wchan,
            ran_at=ran_at, timeout_s=timeout, wakes_at=self._clocks.wakes_at(call, ran_at),
            waits_on=tuple(item.id for item in found), once=self._once(call), writes=call.writes(),
            signals=call.signals(),
        )  # fmt: skip
        return row, found

    def _waits_on(self, tid: int, call: Call, state: str, wchan: str) -> Iterator[KernelObject]:
        if state not in "SD" or not call.args:
            return
        if call.name in NAMELESS_CALLS:
            if state == "D" or wchan.startswith(ASKS_SERVER):
                yield from served_mounts(self._holdings, mapped=call.name is None)
        elif call.name is not None:
            yield from self._waited.of(tid, call, self._holdings)

    def _once(self, call: Call) -> tuple[str, ...]:
        """The objects that wake a poll once, not as long as there is something to read."""
        names = map(self._holdings.name, call.polled_once(self._proc, self._holdings.pid))
        return tuple(name for name in names if name is not None)

    def _syscall(self, pid: int, tid: int) -> tuple[str | None, tuple[int, ...]]:
        """Name and arguments of the call a thread is in; no name if there is no call, or it cannot be read."""
        try:
            fields = self._proc.text(pid, "task", tid, "syscall").split()
        except OSError as problem:
            if isinstance(problem, PermissionError):
                reason = "the system call cannot be read (ptrace right)"
                self._unknown = self._unknown or Unknown(table="blocked", pid=pid, reason=reason)
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
        # "0" means running, or no right to know.
        return text if text not in ("", "0") else None
