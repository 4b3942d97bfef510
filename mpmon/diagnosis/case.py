"""One moment with its past, joined for asking: who is who, who waits in what, who holds the other end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from mpmon.diagnosis.findings import Place, Suspect
from mpmon.diagnosis.frames import bare, inner_machinery, innermost_user, place
from mpmon.diagnosis.gpus.joins import Gpus
from mpmon.diagnosis.history import History, Past, ThreadKey
from mpmon.diagnosis.ipc import Ipc
from mpmon.diagnosis.memory import Memory
from mpmon.diagnosis.motion import Motion, gets_on, is_frozen, motion, till_now
from mpmon.diagnosis.numbers import Numbers
from mpmon.diagnosis.roles import HELPERS, PROCESS_GROUP_THREADS, Role
from mpmon.diagnosis.waits import Standing, Wait, in_own_code, standing
from mpmon.model import (
    NOT_PYTHON,
    Awaited,
    Blocked,
    Handle,
    KernelObject,
    LockUse,
    Process,
    Remembered,
    SemaphoreUse,
    Snapshot,
    Stack,
    Thread,
)

STORE_THREAD = "pt_tcpstore_uv"

RPC_THREADS = "TP_"
"""How the names of the threads begin in which TensorPipe, the transport of torch.distributed.rpc, moves its messages."""

_SOCKET_WAITS = frozenset({Wait.POLL, Wait.SOCKET, Wait.UNKNOWN})

_SIGNAL_CALLS = frozenset({"pause", "rt_sigsuspend", "rt_sigtimedwait"})
"""System calls that only a signal ends."""


class Case:
    """The joins over one history. Everything is computed when first asked for."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memory | None = None) -> None:
        self.history = history
        self.snapshot = snapshot
        self.memory = memory or Memory()
        self.now = snapshot.taken_at
        self.processes: dict[int, Process] = {row.pid: row for row in snapshot.processes}
        self.roles: dict[int, Role] = history.roles
        self._standings: dict[ThreadKey, Standing] = {}
        self._working: dict[int, tuple[ThreadKey, ...]] = {}
        self._motions: dict[ThreadKey, Motion] = {}

    @cached_property
    def stacks(self) -> dict[ThreadKey, Stack]:
        """Stacks by thread."""
        return self.memory.same("stacks", _by_thread, self.snapshot.stacks)

    @cached_property
    def blocked(self) -> dict[ThreadKey, Blocked]:
        """What the kernel says, by thread."""
        return self.memory.same("blocked", _by_thread, self.snapshot.blocked)

    @cached_property
    def objects(self) -> dict[str, KernelObject]:
        """Kernel objects by id."""
        return self.memory.same("objects", _by_id, self.snapshot.objects)

    @cached_property
    def holders(self) -> dict[str, list[Handle]]:
        """Who has an object open or mapped."""
        return self.memory.same("holders", _by_object, self.snapshot.handles)

    @cached_property
    def outsiders(self) -> dict[str, list[Handle]]:
        """Who has an object and is not of the job."""
        found: dict[str, list[Handle]] = defaultdict(list)
        for handle in self.snapshot.outsiders:
            if handle.pid not in self.processes:
                found[handle.object].append(handle)
        return found

    @cached_property
    def held_by(self) -> dict[int, frozenset[str]]:
        """What a process has open or mapped."""
        return self.memory.same("held by", _held_by, self.snapshot.handles)

    @cached_property
    def uses(self) -> dict[str, list[SemaphoreUse]]:
        """Each process's part in a semaphore."""
        return self.memory.same("uses", _by_object, self.snapshot.semaphores)

    @cached_property
    def _lock_uses(self) -> dict[str, list[LockUse]]:
        return self.memory.same("lock uses", _by_object, self.snapshot.locks)

    @cached_property
    def _wanted(self) -> dict[ThreadKey, LockUse]:
        return self.memory.same("wanted", _wanted, self.snapshot.locks)

    @cached_property
    def _awaited(self) -> dict[ThreadKey, Awaited]:
        return self.memory.same("awaited", _by_thread, self.snapshot.awaited)

    @cached_property
    def numbers(self) -> Numbers:
        """What the Flight Recorders of the ranks say."""
        return Numbers(self)

    @cached_property
    def gpus(self) -> Gpus:
        """Who is on which GPU."""
        return Gpus(self)

    @cached_property
    def ipc(self) -> Ipc:
        """What the processes share: queues, memory, sendings of CUDA memory."""
        return Ipc(self.snapshot, self.roles)

    @cached_property
    def without_ledger(self) -> frozenset[int]:
        """Processes whose part in semaphores could not be read."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.table == "semaphores")

    @cached_property
    def without_handles(self) -> frozenset[int]:
        """Processes whose open files could not be read."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.table == "handles" and not row.gone)

    @cached_property
    def remembered(self) -> dict[int, Remembered]:
        """Children by the pid they had, as their parents' programs remember them."""
        return self.memory.same("remembered", _by_child, self.snapshot.remembered)

    @cached_property
    def remembered_ends(self) -> dict[int, list[Remembered]]:
        """Those of them that have ended and were collected, by the parent."""
        return self.memory.same("remembered ends", _ends_by_parent, self.snapshot.remembered)

    @cached_property
    def ranks(self) -> list[int]:
        """The living ranks."""
        return [pid for pid in self.memory.same("ranks", _ranks, self.roles) if self.is_alive(pid)]

    @cached_property
    def zombies(self) -> list[int]:
        """Processes of the job that ended and were not collected by their parent."""
        return [pid for pid, process in self.processes.items() if process.ended]

    def wanted_lock(self, key: ThreadKey) -> str | None:
        """The lock of its own process a thread waits for."""
        blocked = self.blocked.get(key)
        words = [name for name in blocked.waits_on if name.startswith("futex:")] if blocked else []
        row = self._wanted.get(key)
        return row.object if row else next(iter(words), None)

    def lock_holders(self, lock: str | None) -> list[LockUse]:
        """The threads that hold a lock of their process, by its frames or by the lock's own word."""
        return [use for use in self._lock_uses.get(lock or "", ()) if use.holds]

    def lock_waiters(self, lock: str | None) -> list[LockUse]:
        """The threads whose frames show that they wait for a lock of their process."""
        return [use for use in self._lock_uses.get(lock or "", ()) if not use.holds]

    def holders_before_fork(self, pid: int, lock: str | None) -> list[LockUse]:
        """For a lock that a child copied at its fork: the threads of the parent that hold the parent's, at the same
        address; or the child's own waiters, where the lock names an owner that is no thread of the child.
        """
        if lock is None or not self.is_forked(pid):
            return []
        lost = [use for use in self.lock_waiters(lock) if use.owner_missing]
        return lost or self.lock_holders(lock.replace(f":{pid}:", f":{self.processes[pid].ppid}:"))

    def awaited(self, key: ThreadKey) -> ThreadKey | None:
        """The thread that a joining thread joins, or that runs the task whose result is waited for."""
        row = self._awaited.get(key)
        return (row.pid, row.by_tid) if row and row.by_tid else None

    def others_at_work(self, key: ThreadKey) -> list[ThreadKey]:
        """The other Python threads of its process that are not idle by right: they may do what it could do."""
        return [other for other in self.threads(key[0]) if other != key and not self.standing(other).idle]

    def by_ident(self, pid: int, ident: int | None) -> ThreadKey:
        """The thread with that `threading.get_ident()`; the main thread where it is not known."""
        for key in self.threads(pid):
            if ident is not None and key in self.stacks and self.stacks[key].ident == ident:
                return key
        return pid, pid

    def gil_owner(self, key: ThreadKey) -> ThreadKey | None:
        """Another thread of the process that keeps the GIL and gets nowhere."""
        for other in self.threads(key[0]):
            stack = self.stacks.get(other)
            if other != key and stack and stack.owns_gil and self.motion(other) in (Motion.FROZEN, Motion.SPINNING):
                return other
        return None

    def is_foreign(self, pid: int) -> bool:
        """Not a Python process, so that it has no frames anyway."""
        return any(row.pid == pid and row.reason == NOT_PYTHON for row in self.snapshot.unknowns)

    def is_forked(self, pid: int) -> bool:
        """A child made by fork alone: the kernel says so; else it shows its parent's command line, and no spawn helper's.

        What a fork server forks has nothing of the job in it.
        """
        process = self.processes.get(pid)
        parent = self.processes.get(process.ppid) if process else None
        if process is None or parent is None or process.cmdline is None:
            return False
        if process.forked is not None:
            return process.forked and self.role(parent.pid).kind != "forkserver"
        spawned = any("--multiprocessing-fork" in word for word in process.cmdline)
        return not spawned and (process.cmdline == parent.cmdline or process.name == "pt_data_worker")

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Pids by the kernel's parent."""
        found: dict[int, list[int]] = defaultdict(list)
        for process in self.snapshot.processes:
            found[process.ppid].append(process.pid)
        return found

    @cached_property
    def clients(self) -> dict[int, list[int]]:
        """Pids by the process they work for (`Role.parent`)."""
        return self.memory.same("clients", _clients, self.roles)

    @cached_property
    def _python_threads(self) -> dict[int, list[ThreadKey]]:
        return self.memory.same("python threads", _threads_by_pid, self.snapshot.stacks)

    def role(self, pid: int) -> Role:
        """The role of a process, also of one this snapshot does not have."""
        row = None if pid in self.roles else self.remembered.get(pid)
        if row:
            return Role(name=f"process {row.name or pid}", kind="process", parent=row.pid)
        return self.roles.get(pid) or Role(name="other", kind="other")

    def threads(self, pid: int) -> list[ThreadKey]:
        """The Python threads of a process; only the main thread where there is no stack."""
        return self._python_threads.get(pid) or [(pid, pid)]

    def working_threads(self, pid: int) -> tuple[ThreadKey, ...]:
        """Those of a process that are not idle by right; the same tuple for all who ask."""
        if pid not in self._working:
            self._working[pid] = tuple(key for key in self.threads(pid) if not self.standing(key).idle)
        return self._working[pid]

    def past(self, key: ThreadKey) -> Past | None:
        """What is remembered of a thread."""
        return self.history.pasts.get(key)

    def standing(self, key: ThreadKey) -> Standing:
        """What a thread waits for."""
        if key not in self._standings:
            found = self._read(key)
            lock = self.wanted_lock(key)
            if self.lock_holders(lock) or self.holders_before_fork(key[0], lock):
                found = Standing(Wait.THREAD_LOCK, "a lock", found.frame)
            elif found.kind in _SOCKET_WAITS and self._asks_store(key):
                found = Standing(Wait.STORE_KEY, "a key of the store", found.frame)
            elif found.kind is Wait.FUTEX and self._waits_for_work(key):
                found = Standing(Wait.COLLECTIVE, "an asynchronous operation", found.frame)
            elif found.kind is Wait.FUTEX and key[0] in self.in_rpc and self.is_native(key):
                found = Standing(Wait.REMOTE_CALL, "an answer of another process", found.frame)
            elif found.kind is Wait.SLEEP and self.polled_locks(key):
                found = Standing(Wait.FILE_LOCK, "a file lock", found.frame)
            elif self._waits_for_signal(key, found):
                found = Standing(Wait.SIGNAL, "a signal", found.frame)
            self._standings[key] = found
        return self._standings[key]

    def _read(self, key: ThreadKey) -> Standing:
        """What its own rows tell."""
        stack, blocked, past = self.stacks.get(key), self.blocked.get(key), self.past(key)
        look = past.looks[-1] if past and past.looks else None
        same = look is not None and look.stack is stack and look.blocked is blocked
        return look.standing if look and same else standing(stack, blocked)

    def _asks_store(self, key: ThreadKey) -> bool:
        """It waits for an answer of the process that serves torch's store, in a call of its own code."""
        if not in_own_code(self.stacks.get(key)):
            return False
        ends = [handle.pid for item in self.waits_on(key) if item.peer for handle in self.holders.get(item.peer, ())]
        return any(pid in self.store_servers for pid in ends)

    def polled_locks(self, key: ThreadKey) -> list[KernelObject]:
        """Locks of other processes on files for which a thread tries again and again: in the sleep of a library such as SQLite,
        on a file that its process has open; in `acquire` of the filelock package, which closes the file meanwhile, on any.
        """
        if key not in self.stacks or not self.locked_files:
            return []
        if self._read(key).kind is Wait.FILE_LOCK:
            return [item for item in self.locked_files if key[0] not in item.holders]
        return self.locks_of_others(key[0]) if _sleeps_in_library(self.blocked.get(key)) else []

    def locks_of_others(self, pid: int) -> list[KernelObject]:
        """Locks of other processes on files that a process has open, and did not get from them by a fork."""
        files = self.held_by.get(pid, frozenset())
        locks = [item for item in self.locked_files if pid not in item.holders and item.id in files]
        return [item for item in locks if not (self.is_forked(pid) and self._same_descriptor(pid, item))]

    def _same_descriptor(self, pid: int, item: KernelObject) -> bool:
        """It has the file under the number under which a holder has it."""
        rows = self.holders.get(item.id, ())
        return bool({row.fd for row in rows if row.pid == pid} & {row.fd for row in rows if row.pid in item.holders})

    @cached_property
    def locked_files(self) -> tuple[KernelObject, ...]:
        """Files on which somebody has a lock."""
        return tuple(item for item in self.objects.values() if item.kind == "file lock" and item.holders)

    def _waits_for_work(self, key: ThreadKey) -> bool:
        """A rank's main thread in a native wait that is no lock of Python's: `Work.wait()` of torch."""
        in_group = key[0] == key[1] and key[0] in self._in_process_group
        return in_group and self.role(key[0]).kind == "rank" and self.is_native(key)

    def is_native(self, key: ThreadKey) -> bool:
        """What a thread waits for by its own code in a futex is no lock of Python's: the interpreter was asked, and of the
        operands of its call none is the lock.
        """
        if key in self._wanted or not in_own_code(self.stacks.get(key)):
            return False
        return not any(row.table == "locks" and row.pid == key[0] for row in self.snapshot.unknowns)

    def natives_at_work(self, pid: int) -> list[ThreadKey]:
        """Threads of a process without Python frames that ran lately and do not just look in from time to time."""
        return [
            (pid, row.tid) for row in self._threads_of.get(pid, ())
            if (pid, row.tid) not in self.stacks and self.motion((pid, row.tid)) is not Motion.FROZEN
            and not _ticks(self.past((pid, row.tid)))
        ]  # fmt: skip

    @cached_property
    def _threads_of(self) -> dict[int, list[Thread]]:
        found: dict[int, list[Thread]] = defaultdict(list)
        for row in self.snapshot.threads:
            found[row.pid].append(row)
        return found

    def _waits_for_signal(self, key: ThreadKey, found: Standing) -> bool:
        """The root, having started others that work by themselves, is in `signal.pause()`, or in an event that a handler of
        SIGTERM may set.
        """
        blocked, root = self.blocked.get(key), self.snapshot.root_pid
        if key != (root, root) or blocked is None or blocked.wakes_at is not None or blocked.timeout_s is not None:
            return False
        in_event = (
            found.kind is Wait.CONDITION and self.processes[root].catches_term and _in_event(self.stacks.get(key))
        )
        return (in_event or blocked.syscall in _SIGNAL_CALLS) and bool(self.helpmates(root))

    def helpmates(self, pid: int) -> list[int]:
        """Those a process has started that are alive and work by themselves, neither on its request nor for all."""
        found = [child for child in self.clients.get(pid, ()) if self.is_alive(child)]
        return [child for child in found if self.role(child).kind not in HELPERS and not self.role(child).serves]

    @cached_property
    def _in_process_group(self) -> frozenset[int]:
        return frozenset(row.pid for row in self.snapshot.threads if row.name in PROCESS_GROUP_THREADS)

    @cached_property
    def in_rpc(self) -> frozenset[int]:
        """Processes that are connected by torch.distributed.rpc."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name.startswith(RPC_THREADS))

    @cached_property
    def store_servers(self) -> frozenset[int]:
        """Processes with the thread of a TCPStore's server (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp)."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name == STORE_THREAD)

    def motion(self, key: ThreadKey) -> Motion:
        """Whether a thread got anywhere lately."""
        if key not in self._motions:
            past = self.past(key)
            if past is None or is_frozen(past, self.now):
                self._motions[key] = motion(past, self.now)
            else:
                found = self.memory.same(("motion", key), gets_on, past.looks)
                self._motions[key] = till_now(found, past, self.now)
        return self._motions[key]

    def waits_on(self, key: ThreadKey) -> Iterator[KernelObject]:
        """The kernel objects a thread waits on."""
        blocked = self.blocked.get(key)
        for name in blocked.waits_on if blocked else ():
            if name in self.objects:
                yield self.objects[name]

    def place(self, key: ThreadKey) -> Place | None:
        """The line of a thread that a person should look at."""
        stack = self.stacks.get(key)
        frame = innermost_user(stack) if stack else None
        return place(frame) if frame else None

    def thread_name(self, key: ThreadKey) -> str:
        """Python's name of a thread."""
        stack = self.stacks.get(key)
        if stack and stack.thread_name:
            return stack.thread_name
        return "MainThread" if key[0] == key[1] else f"thread {key[1]}"

    def suspect(self, key: ThreadKey) -> Suspect:
        """A thread as the one who must move first."""
        role = self.role(key[0])
        process = self.processes.get(key[0])
        return Suspect(
            pid=key[0], dead=process is None or process.ended, role=role.name, rank=role.rank,
            thread=self.thread_name(key), tid=key[1], frame=self.place(key),
        )  # fmt: skip

    def dead_suspect(self, pid: int) -> Suspect:
        """A process that ended as the one who should have moved."""
        role = self.role(pid)
        return Suspect(pid=pid, dead=True, role=role.name, rank=role.rank)

    def is_alive(self, pid: int) -> bool:
        """In the job and not a zombie."""
        return pid in self.processes and not self.processes[pid].ended


def _sleeps_in_library(blocked: Blocked | None) -> bool:
    """In usleep(3) or the like: `time.sleep` of Python has an absolute end, or is a `select` (Modules/timemodule.c)."""
    if blocked is None or blocked.syscall not in ("nanosleep", "clock_nanosleep"):
        return False
    return blocked.syscall == "nanosleep" or blocked.args[1:2] == (0,)


def _in_event(stack: Stack | None) -> bool:
    """`Event.wait`, which is `Condition.wait` once; a barrier or a condition with a test of its own is more."""
    zone = [bare(frame.function) for frame in inner_machinery(stack)] if stack else []
    return zone == ["wait", "wait"]


def _ticks(past: Past | None) -> bool:
    """Most looks find it in a wait with a time limit, as a watchdog or a heartbeat is."""
    limits = [
        look.blocked.wakes_at is not None or look.blocked.timeout_s is not None
        for look in (past.looks if past else ()) if look.blocked
    ]  # fmt: skip
    return 2 * sum(limits) > len(limits)


# Joins of one table, made again only when it has changed


def _ranks(roles: Mapping[int, Role]) -> list[int]:
    return [pid for pid, role in roles.items() if role.kind == "rank"]


def _by_thread(rows: Iterable[Any]) -> dict[ThreadKey, Any]:
    return {(row.pid, row.tid): row for row in rows}


def _by_object(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.object].append(row)
    return found


def _by_id(rows: Iterable[KernelObject]) -> dict[str, KernelObject]:
    return {row.id: row for row in rows}


def _held_by(rows: Iterable[Handle]) -> dict[int, frozenset[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        found[row.pid].add(row.object)
    return {pid: frozenset(names) for pid, names in found.items()}


def _wanted(rows: Sequence[LockUse]) -> dict[ThreadKey, LockUse]:
    return {(row.pid, row.tid): row for row in reversed(rows) if not row.holds}


def _by_child(rows: Iterable[Remembered]) -> dict[int, Remembered]:
    return {row.child: row for row in rows}


def _ends_by_parent(rows: Iterable[Remembered]) -> dict[int, list[Remembered]]:
    found: dict[int, list[Remembered]] = defaultdict(list)
    for row in rows:
        if row.returncode is not None:
            found[row.pid].append(row)
    return found


def _clients(roles: Mapping[int, Role]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for pid, role in roles.items():
        if role.parent is not None:
            found[role.parent].append(pid)
    return found


def _threads_by_pid(rows: Iterable[Stack]) -> dict[int, list[ThreadKey]]:
    found: dict[int, list[ThreadKey]] = defaultdict(list)
    for row in rows:
        found[row.pid].append((row.pid, row.tid))
    return found
