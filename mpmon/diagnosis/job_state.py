"""One snapshot and its history, judged: what each thread waits for, whether it makes progress, who could unblock it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from mpmon.diagnosis.collective_seq import Numbers
from mpmon.diagnosis.frames import bare, called_by_user, inner_machinery, is_user
from mpmon.diagnosis.gpus.joins import Gpus
from mpmon.diagnosis.gpus.spins import Spin, spins
from mpmon.diagnosis.history import History, Sample, ThreadHistory, ThreadKey
from mpmon.diagnosis.ipc import Ipc
from mpmon.diagnosis.libraries.debuggers import DEBUGGERS
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.native_waits import FOR_THREADS, Sort
from mpmon.diagnosis.progress.motion import Motion, gets_on, is_frozen, motion, same_since, share, till_now
from mpmon.diagnosis.progress.state_change import (
    got_nothing_since,
    keep_changing,
    looked_in_vain_since,
    same_answer_since,
)
from mpmon.diagnosis.retried_locks import polled_locks
from mpmon.diagnosis.roles import HELPERS, is_python
from mpmon.diagnosis.shapes import Shape, shape
from mpmon.diagnosis.snapshot_index import SnapshotIndex
from mpmon.diagnosis.thresholds import GPU_STANDS_LONG_S, POLLS_SHARE
from mpmon.diagnosis.waits import (
    ASYNCHRONOUS,
    SIGNAL_CALLS,
    STOPPED,
    Wait,
    WaitState,
    context,
    in_own_code,
    polled,
    wait_state,
)
from mpmon.diagnosis.world import World
from mpmon.model import Snapshot

T = TypeVar("T")

_SOCKET_WAITS = frozenset({Wait.POLL, Wait.SOCKET, Wait.UNKNOWN})

_EVENTS = frozenset({Wait.POLL, Wait.EVENT_LOOP, Wait.SOCKET, Wait.PIPE_READ})
"""Waits for something outside of the process."""

_GPU_CALLS = frozenset({Wait.POLL, Wait.FUTEX, Wait.FILE, Wait.UNKNOWN})
"""The kinds by which the kernel may report a sleep in the driver's library, which can be in any of these calls."""

_LOOKS_IN = frozenset({Wait.SLEEP, Wait.LAUNCHER, Wait.COLLECTIVE, Wait.SIGNAL})
"""Waits in which a thread may run indefinitely without helping others: a monitor, a launcher, a busy wait."""

_ASKS_OTHERS = frozenset({
    Wait.POLL, Wait.SOCKET, Wait.PIPE_READ, Wait.QUEUE_GET, Wait.QUEUE_PUT, Wait.LOCK, Wait.FILE_LOCK, Wait.THREAD_LOCK,
    Wait.FUTURE_RESULT, Wait.POOL_RESULT, Wait.LOADER_BATCH, Wait.JOIN_PROCESS, Wait.JOIN_THREAD, Wait.CHILD,
})  # fmt: skip
"""Waits for an action of another thread: if such a wait times out, the action has not come."""

_OF_PERSONS = re.compile(r"terminal:/dev/(pts/\d+|tty\d*|console)")
"""Terminals at which persons type; others are devices, such as serial lines."""

COMES_BY_READING = frozenset({Wait.PIPE_READ, Wait.QUEUE_GET})
"""Waits for data that multiprocessing reads with read(2)."""

_PROGRAMS = frozenset({"main", "subprocess"})
"""Processes that run a program of their own."""


class JobState(SnapshotIndex):
    """The tables of a snapshot, and judgements that join several of them. Everything is computed on first use."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memo | None = None) -> None:
        super().__init__(history, snapshot, memory)
        self._wait_states: dict[ThreadKey, WaitState] = {}
        self._working: dict[int, tuple[ThreadKey, ...]] = {}
        self._motions: dict[ThreadKey, Motion] = {}
        self._made: dict[object, Any] = {}

    @cached_property
    def numbers(self) -> Numbers:
        """The collective sequence numbers from the ranks' Flight Recorders."""
        return Numbers(self, self._without_numbers)

    @cached_property
    def world(self) -> World:
        """Which ranks of the job are not observed."""
        return World(self)

    @cached_property
    def gpus(self) -> Gpus:
        """Which process uses which GPU."""
        return Gpus(self)

    @cached_property
    def spins(self) -> tuple[Spin, ...]:
        """Devices whose kernels only spin."""
        return spins(self)

    @cached_property
    def ipc(self) -> Ipc:
        """What the processes share: queues, memory, CUDA memory sent between them."""
        return Ipc(self.snapshot, self.roles, self.history.queue_parts)

    def of(self, kind: Callable[[JobState], T]) -> T:
        """What a class makes of this job; it is made once."""
        if kind not in self._made:
            self._made[kind] = kind(self)
        return self._made[kind]

    # What a thread waits for

    def wait_state(self, key: ThreadKey) -> WaitState:
        """What a thread waits for."""
        return self._in_collectives.get(key) or self._without_numbers(key)

    def _without_numbers(self, key: ThreadKey) -> WaitState:
        """What a thread waits for, by its frames and the kernel's facts, without collective sequence numbers."""
        if key not in self._wait_states:
            found = self.read_wait(key)
            lock = self.wanted_lock(key)
            if self.silent_mounts and (mount := self.silent_mount(key)):
                found = WaitState(Wait.FILE, f"waiting for a file on {mount.path}", found.frame)
            elif lock and (self.lock_holders(lock) or self.holders_before_fork(key[0], lock)):
                found = WaitState(Wait.THREAD_LOCK, "a lock", found.frame)
            elif found.kind in _SOCKET_WAITS and self._asks_store(key):
                found = WaitState(Wait.STORE_KEY, "a key of the store", found.frame)
            elif found.kind is Wait.FUTEX and self._leaves(key):
                found = WaitState(Wait.EXIT, self._own_threads_words(key) or "what a library does at exit")
            elif found.kind is Wait.FUTEX and (words := self._own_threads_words(key)):
                found = WaitState(Wait.FUTEX, words, found.frame)
            elif found.kind is Wait.FUTEX and self._waits_for_work(key):
                found = WaitState(Wait.COLLECTIVE, ASYNCHRONOUS, found.frame)
            elif found.kind is Wait.FUTEX and key[0] in self.in_rpc and self.is_native(key):
                found = WaitState(Wait.REMOTE_CALL, "an answer of another process", found.frame)
            elif found.kind is Wait.FUTEX and self._accepts_in_c(key):
                found = WaitState(Wait.FUTEX, "requests", found.frame)
            elif found.kind in _GPU_CALLS and self._waits_for_gpu(key):
                found = WaitState(Wait.GPU, "its GPU", found.frame)
            elif found.kind is Wait.SLEEP and polled_locks(self, key, Wait.SLEEP):
                found = WaitState(Wait.FILE_LOCK, "a file lock", found.frame)
            elif found.kind is Wait.DEBUGGER and found.frame is None and self._is_typed_to(key):
                found = WaitState(Wait.PIPE_READ, "what is typed to its terminal")
            elif found.kind is Wait.DEBUGGER and self._is_asked(key):
                found = WaitState(Wait.SERVICE, "somebody to type", found.frame)
            elif found.kind is Wait.JOIN_PROCESS and self._waits_for_lost_lock(key):
                found = WaitState(Wait.LOCK, "the lock of its pool's queue", found.frame)
            elif found.kind is Wait.SERVICE and self.is_read_from(key):
                found = WaitState(Wait.SOCKET, "the next request", found.frame)
            elif found.kind is Wait.THREAD_QUEUE and self.serves_library(key):
                found = WaitState(Wait.SERVICE, "what its library gives it to do", found.frame)
            elif key[0] == key[1] and self._only_stays(key, found):
                found = WaitState(Wait.SIGNAL, "a signal", found.frame)
            self._wait_states[key] = found
        return self._wait_states[key]

    def read_wait(self, key: ThreadKey) -> WaitState:
        """What the thread's own rows say; a process that the kernel shows as stopped now outranks earlier samples."""
        process = self.processes.get(key[0])
        if process and process.state == "T":
            return STOPPED
        stack, blocked, past = self.stacks.get(key), self.blocked.get(key), self.thread_history(key)
        sample = past.samples[-1] if past and past.samples else None
        same = sample is not None and sample.stack is stack and sample.blocked is blocked
        return sample.wait_state if sample and same else wait_state(stack, blocked)

    def _waits_for_lost_lock(self, key: ThreadKey) -> bool:
        """What ends a pool waits for the lock with which its workers take tasks, and none of them has it."""
        uses = [self.uses.get(item.id, []) for item in self.waits_on(key) if item.kind == "semaphore"]
        return any(rows and all(row.count == 0 for row in rows) for rows in uses)

    def is_read_from(self, key: ThreadKey) -> bool:
        """A service thread waits for the next request on a connection at whose other end a main thread waits for its answer: each
        takes it to be the other's turn.
        """
        items = list(self.waits_on(key))
        if (
            self.read_wait(key).kind is not Wait.SERVICE
            or len(items) != 1
            or items[0].kind != "socket"
            or not items[0].peer
        ):
            return False
        clients = self.waiters.get(items[0].peer, frozenset()) - {key[0]}
        return any(self.read_wait((pid, pid)).kind is Wait.SOCKET for pid in clients)

    def _asks_store(self, key: ThreadKey) -> bool:
        """The thread waits, in a call made by its own code, for an answer from torch's store."""
        if not self.store_ends or not in_own_code(self.stacks.get(key)):
            return False
        return any(item.peer in self.store_ends for item in self.waits_on(key))

    def _waits_for_work(self, key: ThreadKey) -> bool:
        """A rank's main thread is in torch's `Work.wait()`: its C frames say so, or it is in a native wait that is not a
        Python lock.
        """
        in_group = key[0] == key[1] and key[0] in self._in_process_group and self.role(key[0]).kind == "rank"
        fact = self.native_facts.get(key)
        named = fact is not None and fact.is_surely(Sort.RANKS)
        return in_group and (named or (self.asks_for_work(key) and self.is_native(key)))

    @cached_property
    def _in_collectives(self) -> dict[ThreadKey, WaitState]:
        """Main threads of ranks that have long been computing at one line, or sleeping there, while their GPUs spin. A
        long computation looks the same, but the Flight Recorders show that these ranks have begun a collective that
        others have not.
        """
        if not self.snapshot.flight_records:
            return {}
        heads = (pid for spin in self.spins if self.now - spin.since >= GPU_STANDS_LONG_S for pid in spin.heads)
        own = (Wait.RUNNING, Wait.GPU)
        spinning = [pid for pid in heads if pid in self.ranks and self._without_numbers((pid, pid)).kind in own]
        waiting = [pid for pid in spinning if self.numbers.lag(pid) or self.numbers.clash(pid)]
        return {(pid, pid): WaitState(Wait.COLLECTIVE, ASYNCHRONOUS, None) for pid in waiting}

    def _waits_for_gpu(self, key: ThreadKey) -> bool:
        """The thread sleeps in a CUDA call, by its C frames."""
        fact = self.native_facts.get(key)
        return fact is not None and fact.is_surely(Sort.GPU)

    def _leaves(self, key: ThreadKey) -> bool:
        """The interpreter has been finalized, and exit(3) runs the libraries' remaining handlers."""
        fact = self.native_facts.get(key)
        return key not in self.stacks and fact is not None and fact.leaves

    def joined_thread(self, key: ThreadKey) -> ThreadKey | None:
        """The thread that a thread joins in C."""
        blocked = self.blocked.get(key)
        joined = (key[0], blocked.joins) if blocked and blocked.joins else None
        return joined if joined and self.thread_history(joined) else None

    def _own_threads_words(self, key: ThreadKey) -> str:
        """What a thread waits for, if its C frames show that no other process is involved."""
        if joined := self.joined_thread(key):
            return f"the end of the native {self.thread_words(joined)}"
        fact = self.native_facts.get(key)
        return fact.wait.waits_for if fact and fact.wait and fact.is_surely(Sort.TEAM, Sort.SEMAPHORE) else ""

    def is_native(self, key: ThreadKey) -> bool:
        """The thread's own code waits in a futex that is not a Python lock: its C frames say so, or the interpreter's locks
        were read and the futex is none of them.
        """
        fact = self.native_facts.get(key)
        if fact and fact.is_surely(*FOR_THREADS):
            return True
        return self.may_be_native(key) and not any(
            row.table == "locks" and row.pid == key[0] for row in self.snapshot.unknowns
        )

    def may_be_native(self, key: ThreadKey) -> bool:
        """The same, although the futex may be a Python lock that could not be read."""
        return key not in self._wanted and in_own_code(self.stacks.get(key))

    def _only_stays(self, key: ThreadKey, found: WaitState) -> bool:
        """The main thread of a program or process that only has to stay alive while other threads or processes work: it is
        in `signal.pause()`, in an event wait or loop that a SIGTERM handler or a request may end, or in a loop that never
        exits.
        """
        blocked = self.blocked.get(key)
        if blocked is None:
            return False
        kind = self.role(key[0]).kind
        own = key[0] == self.snapshot.root_pid or kind in _PROGRAMS
        if not own and kind != "process":
            return False
        row, tests = polled(self.stacks.get(key)), self.tests(key)
        asks_event = row.kind is Wait.CONDITION if row else found.kind is Wait.CONDITION and self._stays_in_event(key)
        timed = blocked.wakes_at is not None or blocked.timeout_s is not None
        in_call = blocked.syscall in SIGNAL_CALLS and not timed
        # A child inherits its parent's handlers, whether or not they have any effect in the child.
        # A loop that tests a plain flag, as in `while running: time.sleep(1)`, is ended by a signal handler.
        flag = (
            bool(tests)
            and all(name == "?" or name.startswith(".") for name in tests)
            and not row
            and not self.acts(key)
        )
        told = (asks_event or flag) and self._may_be_told(key) and (own or timed)
        stays = in_call or (tests == () and not self.acts(key)) or told
        return stays and (len(self.threads(key[0])) > 1 or bool(self.helpmates(key[0])))

    def _stays_in_event(self, key: ThreadKey) -> bool:
        """The program itself waits for the event: user code, or the package whose program this is. A wait inside a library
        that user code called is for the library's result.
        """
        stack = self.stacks.get(key)
        own = stack is not None and (called_by_user(stack) or not any(is_user(row.file) for row in stack.frames))
        return own and self.in_event(key)

    def serves_library(self, key: ThreadKey) -> bool:
        """The thread was started by a library and runs no user code: it waits for the library's requests."""
        return key[0] != key[1] and bool(self.shape(key).serves)

    def _may_be_told(self, key: ThreadKey) -> bool:
        """A SIGTERM handler, or a thread that listens, may set an event of the process."""
        if self.processes[key[0]].catches_term:
            return True
        return any(item.listens for other in self.threads(key[0]) for item in self.waits_on(other))

    def was_asked_to_end(self, key: ThreadKey) -> bool:
        """A server's main thread that waits for its next request, while its process holds off a SIGTERM."""
        rests = self.wait_state(key).idle or any(item.listens for item in self.waits_on(key))
        return key[0] == key[1] and self.processes[key[0]].holds_off_term and rests

    def may_be_called(self, pid: int) -> bool:
        """A handler of the process may run: when its alarm is due, or another program asks it to do something."""
        return self.processes[pid].catches_alarm or self.processes[pid].catches_call

    def tests(self, key: ThreadKey) -> tuple[str, ...] | None:
        """The conditions that a thread's polling loop tests, see `Stack.tests`."""
        stack = self.stacks.get(key)
        return stack.tests if stack else None

    def acts(self, key: ThreadKey) -> bool:
        """Each turn of a thread's loop may bring something in from outside, see `Stack.acts`."""
        stack = self.stacks.get(key)
        return stack is not None and stack.acts

    def only_sleeps(self, key: ThreadKey) -> bool:
        """The thread stays for ever in a loop that does nothing for others, see `Stack.only_sleeps`."""
        stack = self.stacks.get(key)
        return stack is not None and stack.only_sleeps and self.wait_state(key).kind in (Wait.SLEEP, Wait.SIGNAL)

    def in_event(self, key: ThreadKey) -> bool:
        """The thread is in `Event.wait`: exactly one `Condition.wait` below it. A barrier, or a condition with its own
        predicate, shows more frames.
        """
        stack = self.stacks.get(key)
        return stack is not None and [bare(frame.function) for frame in inner_machinery(stack)] == ["wait", "wait"]

    def _is_asked(self, key: ThreadKey) -> bool:
        """The thread waits at a terminal for a person, not in a debugger. The person can type: a process that is not in the
        foreground of its terminal is stopped when it reads from it (SIGTTIN of termios(3)).
        """
        stack = self.stacks.get(key)
        debugs = stack is not None and any(frame.file.endswith(DEBUGGERS) for frame in stack.frames)
        blocked = self.blocked.get(key)
        by_person = blocked is not None and any(map(_OF_PERSONS.fullmatch, blocked.waits_on))
        return by_person and not debugs and not self._is_typed_to(key)

    def _is_typed_to(self, key: ThreadKey) -> bool:
        """A program of the job, rather than a person, types to the thread's terminal, as pexpect does."""
        return any(self.typists.get(item.id) for item in self.waits_on(key))

    @cached_property
    def typists(self) -> dict[str, list[ThreadKey]]:
        """By terminal, the Python threads that wait for its output: they own its controlling side, and type."""
        found: dict[str, list[ThreadKey]] = {}
        for key in self.stacks:
            for item in self.waits_on(key):
                if item.kind == "pty" and item.peer:
                    found.setdefault(item.peer, []).append(key)
        return found

    # Who moves

    def motion(self, key: ThreadKey) -> Motion:
        """Whether a thread made progress lately."""
        if key not in self._motions:
            past = self.thread_history(key)
            if past is None or is_frozen(past, self.now):
                self._motions[key] = motion(past, self.now)
            else:
                found = self.memory.same(("motion", key), _gets_on, past.samples)
                moves = till_now(found, past, self.now)
                asks = moves is Motion.PROGRESSING and self.asks_since(key) is not None
                self._motions[key] = Motion.POLLING if asks else moves
        return self._motions[key]

    def asks_since(self, key: ThreadKey) -> float | None:
        """Since when a thread has been repeating a request and getting the same answer, though in a new object each time: a wait
        that timed out, a loop that only looks for something or, for a rank that others wait for, a status file or a directory
        listing. `None` if it has not.
        """
        past, kind = self.thread_history(key), self._without_numbers(key).kind
        if past is None:
            return None
        since = None
        if kind in _ASKS_OTHERS or self._keeps_ranks_waiting(key):
            since = self.memory.same(("asks", key), same_answer_since, past.samples)
        if since is not None or share(past.samples) > POLLS_SHARE:
            return since
        if kind in COMES_BY_READING or (kind in _ASKS_OTHERS and polled(self.stacks.get(key)) is not None):
            return self.memory.same(("got nothing", key), got_nothing_since, past.samples)
        return self.memory.same(("looked", key), looked_in_vain_since, past.samples) if kind is Wait.SLEEP else None

    def _keeps_ranks_waiting(self, key: ThreadKey) -> bool:
        """The thread is the main thread of a rank, and another rank is blocked in a collective."""
        return key[0] == key[1] and key[0] in self.ranks and bool(self._ranks_at_rest - {key[0]})

    @cached_property
    def _ranks_at_rest(self) -> frozenset[int]:
        """Ranks that are blocked in a collective."""
        stands = [pid for pid in self.ranks if self._without_numbers((pid, pid)).kind is Wait.COLLECTIVE]
        return frozenset(
            pid for pid in stands if (past := self.thread_history((pid, pid))) and is_frozen(past, self.now)
        )

    def gil_owner(self, key: ThreadKey) -> ThreadKey | None:
        """Another thread of the process that holds the GIL and makes no progress."""
        others = (other for other in self._gil_owners.get(key[0], ()) if other != key)
        return next((other for other in others if self.motion(other) in (Motion.NOT_SCHEDULED, Motion.BUSY_LOOP)), None)

    @cached_property
    def _gil_owners(self) -> dict[int, list[ThreadKey]]:
        """The threads of each process whose stacks were read while they had the GIL."""
        found: dict[int, list[ThreadKey]] = defaultdict(list)
        for key, stack in self.stacks.items():
            if stack.owns_gil:
                found[key[0]].append(key)
        return found

    def stands_since(self, key: ThreadKey) -> float:
        """Since when a thread has been blocked, seconds since the epoch."""
        past = self.thread_history(key)
        if past is not None and self._without_numbers(key).kind is Wait.STOPPED:
            # Earlier samples at the same place may be from a loop that made progress.
            return past.ran_at
        asks_since = self.asks_since(key)
        if past is None or asks_since is not None:
            return self.now if asks_since is None else asks_since
        return self.memory.same(("stands", key), same_since, past)

    def working_threads(self, pid: int) -> tuple[ThreadKey, ...]:
        """The threads of a process that are not legitimately idle; every call returns the same tuple."""
        if pid not in self._working:
            self._working[pid] = tuple(key for key in self.threads(pid) if not self._without_numbers(key).idle)
        return self._working[pid]

    def others_at_work(self, key: ThreadKey) -> list[ThreadKey]:
        """The other Python threads of the process that are not legitimately idle: any of them might act instead."""
        return [other for other in self.threads(key[0]) if other != key and not self.wait_state(other).idle]

    def natives_at_work(self, pid: int) -> list[ThreadKey]:
        """Threads without Python frames that ran lately and do more than poll."""
        moved = [key for key in self.natives(pid) if self.motion(key) is not Motion.NOT_SCHEDULED]
        return [key for key in moved if not _ticks(self.thread_history(key))]

    def native_loops(self, pid: int) -> list[ThreadKey]:
        """Native threads in which a C library's event loop waits for events from outside the process; torch's own service
        threads are excluded.
        """
        natives = [key for key in self.all_threads(pid) if key not in self.stacks and self._awaits_events(key)]
        return [key for key in natives if not ((fact := self.native_facts.get(key)) and fact.is_at_rest)]

    def serves_in_c(self, key: ThreadKey) -> bool:
        """The thread waits in a server that a library such as gRPC runs in native threads, one of which accepts connections.
        In a rank, threads with unread C frames do not count, as they may be torch's.
        """
        return self.wait_state(key).kind is Wait.FUTEX and self._accepts_in_c(key)

    def _accepts_in_c(self, key: ThreadKey) -> bool:
        if not self.may_be_native(key) or self.shape(key).runs:
            # A library that runs the job's code there has given it a request.
            return False
        ours = key[0] not in self._in_process_group
        loops = [other for other in self.native_loops(key[0]) if ours or other in self.native_facts]
        return any(item.listens for other in loops for item in self.waits_on(other))

    def _awaits_events(self, key: ThreadKey) -> bool:
        return wait_state(None, self.blocked.get(key)).kind in _EVENTS

    def helpmates(self, pid: int) -> list[int]:
        """Children that are alive and work on their own, neither on request nor for the whole job."""
        found = [child for child in self.clients.get(pid, ()) if self.is_alive(child)]
        return [child for child in found if self.role(child).kind not in HELPERS and not self.role(child).serves]

    def programs_beside(self, pid: int) -> list[int]:
        """The other programs of the job on the same machine that may do something by themselves, such as write a file; of those
        that are not Python, the ones that do.
        """
        own = self.processes[pid]
        others = [
            row for row in self.processes.values() if row.pid != pid and row.host == own.host and self.is_alive(row.pid)
        ]
        mains = [(row, self.motion((row.pid, row.pid))) for row in others if self.role(row.pid).kind not in HELPERS]
        return [row.pid for row, moves in mains if is_python(row) or moves in (Motion.PROGRESSING, Motion.BUSY_LOOP)]

    @cached_property
    def at_work(self) -> frozenset[int]:
        """Processes whose main thread makes progress or computes, and does more than poll or monitor others."""
        alive = [pid for pid in self.processes if self.may_act(pid)]
        return frozenset(
            pid for pid in alive if self.motion((pid, pid)) in (Motion.PROGRESSING, Motion.BUSY_LOOP)
            and (self.wait_state((pid, pid)).kind not in _LOOKS_IN or self._works_between_naps(pid))
            and polled(self.stacks.get((pid, pid))) is None
            and not self.wait_state((pid, pid)).idle
        )  # fmt: skip

    def ended_at(self, pid: int) -> float | None:
        """When a process that was seen alive was first seen to have ended; `None` for all others."""
        process = self.processes.get(pid)
        life = self.history.life(process) if process else None
        seen = next((row.seen_at for row in reversed(self.snapshot.exits) if row.pid == pid), None)
        return life.ended_at if life and life.ended_at is not None else seen

    # Code that libraries run

    def shape(self, key: ThreadKey) -> Shape:
        """Whose code a thread is in."""
        stack = self.stacks.get(key)
        return self.memory.same(("shape", key), shape, stack) if stack else Shape()

    @cached_property
    def tasks(self) -> tuple[ThreadKey, ...]:
        """Threads in user code that a library called."""
        return tuple(key for key in self.stacks if self.is_alive(key[0]) and self.shape(key).runs)

    @cached_property
    def is_on_one_machine(self) -> bool:
        """No connection that was seen leads to another machine."""
        sockets = (item for item in self.snapshot.objects if item.kind == "socket" and not item.listens)
        return all(item.peer or not (item.path or "").startswith("tcp") for item in sockets)

    def _works_between_naps(self, pid: int) -> bool:
        """A rank, or a worker in a task, makes progress although its current wait is a sleep."""
        key = (pid, pid)
        return (
            self.wait_state(key).kind is Wait.SLEEP
            and self.motion(key) is Motion.PROGRESSING
            and (pid in self.ranks or context(self.stacks.get(key)) is not None)
        )


def _gets_on(samples: tuple[Sample, ...]) -> Motion:
    """Judged by the thread's frames; if these only show polling, by whether its variables change."""
    found = gets_on(samples)
    return Motion.PROGRESSING if found is Motion.POLLING and keep_changing(samples) else found


def _ticks(past: ThreadHistory | None) -> bool:
    """Most samples find the thread in a timed wait, as with a watchdog or a heartbeat."""
    limits = [
        sample.blocked.wakes_at is not None or sample.blocked.timeout_s is not None
        for sample in (past.samples if past else ()) if sample.blocked
    ]  # fmt: skip
    return 2 * sum(limits) > len(limits)
