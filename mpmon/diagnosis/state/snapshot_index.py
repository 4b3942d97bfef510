"""The rows of one snapshot by the keys they are asked for: pid, thread, object; and the role of each process.

Joins only: what threads wait for, and whether they make progress, is judged in `job_state`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from mpmon.diagnosis.humanize import several, verb
from mpmon.diagnosis.libraries import RANK_THREADS
from mpmon.diagnosis.libraries.torch_data import LOADER_PROCESS
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.ranks.starts import Starts
from mpmon.diagnosis.roles import HELPERS, Role, given_name, named_process
from mpmon.diagnosis.stacks.natives import NativeFact, native_fact
from mpmon.diagnosis.state.history import History, ThreadHistory, ThreadKey
from mpmon.model import (
    NAMELESS_CALLS,
    Blocked,
    Handle,
    JoinTarget,
    KernelObject,
    KnownChild,
    LockUse,
    Mount,
    NativeStack,
    Process,
    QueueState,
    SemaphoreUse,
    Snapshot,
    Stack,
    Thread,
)

STORE_THREAD = "pt_tcpstore_uv"
"""The thread of a TCPStore's server (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp)."""

RPC_THREADS = "TP_"
"""Prefix of the names of TensorPipe's threads, the transport of torch.distributed.rpc."""


class SnapshotIndex:
    """The joins over one history and its last snapshot. Each is made on first use."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memo | None = None) -> None:
        """`memory` keeps the joins of tables that did not change since the previous round."""
        self.history = history
        self.snapshot = snapshot
        self.memory = memory or Memo()
        self.now = snapshot.taken_at
        self.processes: dict[int, Process] = {row.pid: row for row in snapshot.processes}
        self.roles: dict[int, Role] = history.roles

    # Processes

    def role(self, pid: int) -> Role:
        """The role of a process, also if it is not in this snapshot."""
        known = self.roles.get(pid)
        row = None if known else self.remembered.get(pid)
        if row is None:
            return known or Role(name="other", kind="other")
        if name := given_name(row):
            return named_process(name, row.pid)
        parent = self.roles.get(row.pid)
        return Role(name=f"child of {parent.name if parent else 'another process'}", kind="process", parent=row.pid)

    @cached_property
    def ranks(self) -> list[int]:
        """The living ranks; in a job restarted by torchrun, those of its last start, which wait for no others."""
        return [pid for pid in self._living_ranks if not self.is_of_earlier_start(pid)]

    @cached_property
    def _living_ranks(self) -> list[int]:
        return [pid for pid in self.memory.same("ranks", _ranks, self.roles) if self.is_alive(pid)]

    @cached_property
    def _starts(self) -> Starts:
        return Starts(self.processes[pid] for pid in self._living_ranks)

    def is_of_earlier_start(self, pid: int) -> bool:
        """A rank left over when torchrun restarted the job, perhaps on another machine."""
        return pid in self.processes and self._starts.is_earlier(self.processes[pid])

    @cached_property
    def stopped(self) -> tuple[int, ...]:
        """The living processes that a signal or a debugger has stopped."""
        return tuple(pid for pid, row in self.processes.items() if row.stopped and not row.ended)

    def is_alive(self, pid: int) -> bool:
        """In the job and not a zombie."""
        return pid in self.processes and not self.processes[pid].ended

    def may_act(self, pid: int) -> bool:
        """Alive, and not one of the helpers that only serve others, such as a resource tracker."""
        return self.is_alive(pid) and self.role(pid).kind not in HELPERS

    @cached_property
    def zombies(self) -> list[int]:
        """Processes of the job that ended and were not reaped by their parent."""
        return [pid for pid, process in self.processes.items() if process.ended]

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
    def foreign(self) -> frozenset[int]:
        """Processes that are not Python, so they have no Python frames."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.not_python)

    def is_forked(self, pid: int) -> bool:
        """A child made by fork alone: the kernel says so; else it has its parent's command line, and is no spawn
        helper.

        A child of a fork server has none of the job's state, unless a module that the server preloaded has started
        threads.
        """
        process = self.processes.get(pid)
        parent = self.processes.get(process.ppid) if process else None
        if process is None or parent is None or process.cmdline is None:
            return False
        if process.forked is not None:
            return process.forked and (self.role(parent.pid).kind != "forkserver" or len(self.threads(parent.pid)) > 1)
        spawned = any("--multiprocessing-fork" in word for word in process.cmdline)
        return not spawned and (process.cmdline == parent.cmdline or process.name == LOADER_PROCESS)

    @cached_property
    def remembered(self) -> dict[int, KnownChild]:
        """Children by their former pid, as their parents' programs remember them."""
        return self.memory.same("remembered", _by_child, self.snapshot.remembered)

    @cached_property
    def remembered_ends(self) -> dict[int, list[KnownChild]]:
        """Those of them that ended and were reaped, by parent."""
        return self.memory.same("remembered ends", _ends_by_parent, self.snapshot.remembered)

    # Threads

    @cached_property
    def stacks(self) -> dict[ThreadKey, Stack]:
        """Stacks by thread, of those that are in Python code.

        A thread of a library that has called Python once, as autograd's for a GPU, keeps a thread state without frames.
        """
        return self.memory.same("stacks", _in_python, self.snapshot.stacks)

    @cached_property
    def native_facts(self) -> dict[ThreadKey, NativeFact]:
        """What the C and C++ frames of sleeping threads tell, as far as they were read."""
        return {key: fact for key, fact in self.native_hints.items() if not fact.sampled}

    @cached_property
    def native_hints(self) -> dict[ThreadKey, NativeFact]:
        """The same, and hints from those of running threads: no wait may rest on where a thread is at one moment."""
        return self.memory.same("native facts", _native_facts, self.snapshot.native_stacks)

    @cached_property
    def blocked(self) -> dict[ThreadKey, Blocked]:
        """What the kernel says, by thread."""
        return self.memory.same("blocked", _by_thread, self.snapshot.blocked)

    def thread_history(self, key: ThreadKey) -> ThreadHistory | None:
        """What is remembered of a thread."""
        return self.history.pasts.get(key)

    def threads(self, pid: int) -> list[ThreadKey]:
        """The Python threads of a process; only the main thread where there is no stack."""
        return self._python_threads.get(pid) or [(pid, pid)]

    def has_frames(self, pid: int) -> bool:
        """Whether frames of its threads were read."""
        return pid in self._python_threads

    @cached_property
    def _python_threads(self) -> dict[int, list[ThreadKey]]:
        return self.memory.same("python threads", _threads_by_pid, self.snapshot.stacks)

    @cached_property
    def _threads_of(self) -> dict[int, list[Thread]]:
        found: dict[int, list[Thread]] = defaultdict(list)
        for row in self.snapshot.threads:
            found[row.pid].append(row)
        return found

    def all_threads(self, pid: int) -> list[ThreadKey]:
        """The threads of a process, of Python or not."""
        return [(pid, row.tid) for row in self._threads_of.get(pid, ())]

    def natives(self, pid: int) -> tuple[ThreadKey, ...]:
        """Its threads without Python frames; every call returns the same tuple."""
        return self._natives.get(pid, ())

    @cached_property
    def _natives(self) -> dict[int, tuple[ThreadKey, ...]]:
        found = {pid: tuple(key for key in self.all_threads(pid) if key not in self.stacks) for pid in self._threads_of}
        return {pid: keys for pid, keys in found.items() if keys}

    def by_ident(self, pid: int, ident: int | None) -> ThreadKey:
        """The thread with that `threading.get_ident()`; the main thread if it is unknown."""
        for key in self.threads(pid):
            if ident is not None and key in self.stacks and self.stacks[key].ident == ident:
                return key
        return pid, pid

    def thread_name(self, key: ThreadKey) -> str:
        """Python's name for a thread."""
        stack = self.stacks.get(key)
        if stack and stack.thread_name:
            return stack.thread_name
        return "MainThread" if key[0] == key[1] else f"thread {key[1]}"

    def thread_words(self, key: ThreadKey) -> str:
        """The same in a sentence: `thread writer`, `thread 4711` if Python does not know it."""
        name = self.thread_name(key)
        return name if name == f"thread {key[1]}" else f"thread {name}"

    def name(self, pid: int) -> str:
        """The name of a process in a sentence: that of its role, and its pid where another one is called the same."""
        name = self.role(pid).name
        return f"{name} (pid {pid})" if name in self._namesakes else name

    @cached_property
    def _namesakes(self) -> frozenset[str]:
        """Names that several processes have."""
        counts = Counter(role.name for role in self.roles.values())
        return frozenset(name for name, count in counts.items() if count > 1)

    def names(self, who: Iterable[int | ThreadKey]) -> str:
        """The names of processes, or of those of threads, each process once: `rank 0, rank 1 and 3 more`."""
        pids = dict.fromkeys(one if isinstance(one, int) else one[0] for one in who)
        return several([self.name(pid) for pid in pids])

    def they(self, who: Iterable[ThreadKey], does: str) -> str:
        """The same with a verb: `rank 0 waits`, `rank 0 and rank 1 wait`."""
        keys = list(who)
        return f"{self.names(keys)} {verb(len({pid for pid, _ in keys}), does)}"

    @cached_property
    def in_rpc(self) -> frozenset[int]:
        """Processes connected by torch.distributed.rpc."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name.startswith(RPC_THREADS))

    @cached_property
    def in_process_group(self) -> frozenset[int]:
        """Processes that are members of a process group, by the names of their threads."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name in RANK_THREADS)

    @cached_property
    def store_servers(self) -> frozenset[int]:
        """Processes with the thread of a TCPStore's server (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp)."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name == STORE_THREAD)

    @cached_property
    def store_ends(self) -> frozenset[str]:
        """Their ends of connections: what these threads listen on."""
        threads = ((row.pid, row.tid) for row in self.snapshot.threads if row.name == STORE_THREAD)
        rows = (self.blocked.get(key) for key in threads)
        return frozenset(name for row in rows if row for name in row.waits_on)

    # Kernel objects

    @cached_property
    def objects(self) -> dict[str, KernelObject]:
        """Kernel objects by id."""
        return self.memory.same("objects", _by_id, self.snapshot.objects)

    def waits_on(self, key: ThreadKey) -> tuple[KernelObject, ...]:
        """The kernel objects a thread waits on."""
        blocked = self.blocked.get(key)
        return tuple(self.objects[name] for name in blocked.waits_on if name in self.objects) if blocked else ()

    @cached_property
    def waiters(self) -> dict[str, frozenset[int]]:
        """The processes with a thread that waits on an object, by its id."""
        return self.memory.same("waiters", _waiters, self.snapshot.blocked)

    @cached_property
    def silent_mounts(self) -> dict[str, Mount]:
        """File systems whose server does not respond, by the id of the object that threads wait on."""
        return {f"mount:{row.device}": row for row in self.snapshot.mounts if row.unanswered_since is not None}

    def silent_mount(self, key: ThreadKey) -> Mount | None:
        """The file system a thread waits for, if it does not respond.

        If the call does not name the file system, it must be the only one that does not respond.
        """
        blocked = self.blocked.get(key)
        if blocked is None or not self.silent_mounts:
            return None
        found = [self.silent_mounts[name] for name in blocked.waits_on if name in self.silent_mounts]
        return found[0] if found and (blocked.syscall not in NAMELESS_CALLS or len(found) == 1) else None

    def names_mount(self, key: ThreadKey) -> bool:
        """The thread's call names a file on the file system it waits for, or the thread waits for a page of a mapped file."""
        blocked = self.blocked.get(key)
        return blocked is not None and blocked.syscall not in NAMELESS_CALLS - {None}

    @cached_property
    def queues(self) -> dict[str, QueueState]:
        """Queues of multiprocessing by their pipe."""
        return {row.object: row for row in self.snapshot.queues}

    @cached_property
    def holders(self) -> dict[str, list[Handle]]:
        """Who has an object open or mapped."""
        return self.memory.same("holders", _by_object, self.snapshot.handles)

    @cached_property
    def held_by(self) -> dict[int, frozenset[str]]:
        """What a process has open or mapped."""
        return self.memory.same("held by", _held_by, self.snapshot.handles)

    @cached_property
    def accepting(self) -> dict[int, list[ThreadKey]]:
        """The threads of each process that wait for connections, and perhaps for more."""
        found: dict[int, list[ThreadKey]] = defaultdict(list)
        listening = {item.id for item in self.snapshot.objects if item.listens}
        for row in self.snapshot.blocked if listening else ():
            if not listening.isdisjoint(row.waits_on):
                found[row.pid].append((row.pid, row.tid))
        return found

    @cached_property
    def outsiders(self) -> dict[str, list[Handle]]:
        """Processes outside the job that have an object."""
        found: dict[str, list[Handle]] = defaultdict(list)
        for handle in self.snapshot.outsiders:
            if handle.pid not in self.processes:
                found[handle.object].append(handle)
        return found

    @cached_property
    def without_handles(self) -> frozenset[int]:
        """Processes whose open files could not be read."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.table == "handles" and not row.gone)

    @cached_property
    def locked_files(self) -> tuple[KernelObject, ...]:
        """Files that some process has locked."""
        return self.memory.same("locked files", _locked_files, self.snapshot.objects)

    # Semaphores between processes, and locks within one

    @cached_property
    def uses(self) -> dict[str, list[SemaphoreUse]]:
        """Each process's use of a semaphore."""
        return self.memory.same("uses", _by_object, self.snapshot.semaphores)

    @cached_property
    def without_ledger(self) -> frozenset[int]:
        """Processes whose use of semaphores could not be read."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.table == "semaphores")

    @cached_property
    def _lock_uses(self) -> dict[str, list[LockUse]]:
        return self.memory.same("lock uses", _by_object, self.snapshot.locks)

    @cached_property
    def _wanted(self) -> dict[ThreadKey, LockUse]:
        return self.memory.same("wanted", _wanted, self.snapshot.locks)

    @cached_property
    def _asleep(self) -> dict[ThreadKey, LockUse]:
        return self.memory.same("asleep", _asleep, self.snapshot.locks)

    @cached_property
    def _futexes(self) -> dict[ThreadKey, str]:
        """The first word that a thread waits on in futex(2)."""
        return self.memory.same("futexes", _futexes, self.snapshot.blocked)

    def lock_holders(self, lock: str | None) -> list[LockUse]:
        """The threads that hold a lock of their process, by their frames or by the lock's own word."""
        return [use for use in self._lock_uses.get(lock or "", ()) if use.holds]

    def block_wanted(self, key: ThreadKey) -> LockUse | None:
        """The `with` block that a thread polls to enter."""
        row = self._wanted.get(key)
        return row if row and row.of_block else None

    def block_holders(self, key: ThreadKey) -> list[LockUse]:
        """The threads that are in that block."""
        row = self.block_wanted(key)
        return self.lock_holders(row.object) if row else []

    def seen_inside(self, key: ThreadKey) -> tuple[ThreadKey, ...]:
        """The threads in blocks of that name, if a thread sleeps on its way into one; the blocks may be of different objects."""
        row = self._asleep.get(key)
        uses = self.lock_holders(row.object) if row else ()
        return tuple(dict.fromkeys((use.pid, use.tid) for use in uses))

    def lock_waiters(self, lock: str | None) -> list[LockUse]:
        """The threads that wait for a lock of their process, by their frames."""
        return [use for use in self._lock_uses.get(lock or "", ()) if not (use.holds or use.asleep)]

    def wanted_lock(self, key: ThreadKey) -> str | None:
        """The lock of its own process that a thread waits for."""
        row = self._wanted.get(key)
        return row.object if row else self._futexes.get(key)

    def holders_before_fork(self, pid: int, lock: str | None) -> list[LockUse]:
        """Holders of a lock that a child copied at fork: the parent's threads that hold the lock at the same address; or,
        if the lock names an owner that is not a thread of the child, the child's waiters.
        """
        if lock is None or not self.is_forked(pid):
            return []
        lost = [use for use in self.lock_waiters(lock) if use.owner_missing]
        return lost or self.lock_holders(lock.replace(f":{pid}:", f":{self.processes[pid].ppid}:"))

    @cached_property
    def _awaited(self) -> dict[ThreadKey, JoinTarget]:
        return self.memory.same("awaited", _by_thread, self.snapshot.awaited)

    def awaited(self, key: ThreadKey) -> ThreadKey | None:
        """The thread that a joining thread joins, or that runs the task whose result is waited for."""
        row = self._awaited.get(key)
        return (row.pid, row.by_tid) if row and row.by_tid else None

    def queued_for(self, key: ThreadKey) -> tuple[ThreadKey, ...]:
        """The threads of the executor in whose queue the task is whose result a thread waits for."""
        row = self._awaited.get(key)
        return tuple((row.pid, tid) for tid in row.queued_for) if row and row.kind == "future" else ()

    def is_full(self, key: ThreadKey) -> bool:
        """The thread is in a task of an executor whose threads all are, while others wait in its queue."""
        row = self._awaited.get(key)
        return row is not None and row.kind == "task"

    def group_of(self, key: ThreadKey) -> tuple[int, ...]:
        """The ranks of the process group of a thread's collective; empty if that is unknown."""
        row = self._awaited.get(key)
        return row.members if row else ()

    def group_name(self, key: ThreadKey) -> str:
        """The group's name, common to all ranks; empty if it is unknown."""
        row = self._awaited.get(key)
        return row.group if row else ""

    def is_of_group(self, one: ThreadKey, other: ThreadKey) -> bool | None:
        """Whether two threads' collectives belong to one process group; `None` if that is unknown."""
        rows = self._awaited.get(one), self._awaited.get(other)
        if not all(row and row.members for row in rows):
            return None
        names = {row.group for row in rows if row and row.group}
        return len({row.members for row in rows if row}) == 1 and len(names) < 2

    def asks_for_work(self, key: ThreadKey) -> bool:
        """A sleeping thread's own code may be in `Work.wait()` of torch."""
        row = self._awaited.get(key)
        return row is not None and row.kind == "work"


# Joins of one table, remade only when it has changed


def _ranks(roles: Mapping[int, Role]) -> list[int]:
    return [pid for pid, role in roles.items() if role.is_rank]


def _by_thread(rows: Iterable[Any]) -> dict[ThreadKey, Any]:
    return {(row.pid, row.tid): row for row in rows}


def _in_python(rows: Iterable[Stack]) -> dict[ThreadKey, Stack]:
    return {(row.pid, row.tid): row for row in rows if _is_in_python(row)}


def _is_in_python(row: Stack) -> bool:
    """Or about to be, as a thread that has just been started; or the main thread, which may have left the program's code."""
    return bool(row.frames) or row.active or row.tid == row.pid


def _native_facts(rows: Iterable[NativeStack]) -> dict[ThreadKey, NativeFact]:
    facts = ((row, native_fact(row)) for row in rows)
    return {(row.pid, row.tid): fact for row, fact in facts if fact}


def _by_object(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.object].append(row)
    return found


def _by_id(rows: Iterable[KernelObject]) -> dict[str, KernelObject]:
    return {row.id: row for row in rows}


def _locked_files(rows: Iterable[KernelObject]) -> tuple[KernelObject, ...]:
    return tuple(row for row in rows if row.kind == "file lock" and row.holders)


def _held_by(rows: Iterable[Handle]) -> dict[int, frozenset[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        found[row.pid].add(row.object)
    return {pid: frozenset(names) for pid, names in found.items()}


def _wanted(rows: Sequence[LockUse]) -> dict[ThreadKey, LockUse]:
    return {(row.pid, row.tid): row for row in reversed(rows) if not (row.holds or row.asleep)}


def _asleep(rows: Sequence[LockUse]) -> dict[ThreadKey, LockUse]:
    return {(row.pid, row.tid): row for row in rows if row.asleep}


def _futexes(rows: Iterable[Blocked]) -> dict[ThreadKey, str]:
    words = (((row.pid, row.tid), name) for row in rows for name in reversed(row.waits_on) if name.startswith("futex:"))
    return dict(words)


def _by_child(rows: Iterable[KnownChild]) -> dict[int, KnownChild]:
    return {row.child: row for row in rows}


def _ends_by_parent(rows: Iterable[KnownChild]) -> dict[int, list[KnownChild]]:
    found: dict[int, list[KnownChild]] = defaultdict(list)
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
        found[row.pid] += [(row.pid, row.tid)] if _is_in_python(row) else []
    return found


def _waiters(rows: Sequence[Blocked]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        for name in row.waits_on:
            found[name].add(row.pid)
    return {name: frozenset(pids) for name, pids in found.items()}
