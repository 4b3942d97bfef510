"""What each thread waits for: what its own rows say (`waits`), refined by what the rest of the snapshot says of it.

Theory. Frames and system calls often say only how a thread waits: in a futex, in a poll, asleep. What it waits for shows in
what others hold, serve or type. `_REFINED` is a table of these questions; the first that applies decides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property

import msgspec

from mpmon.diagnosis.libraries import SERVES_ITSELF, TURNS
from mpmon.diagnosis.libraries.debuggers import DEBUGGERS
from mpmon.diagnosis.libraries.torch_distributed import ASYNCHRONOUS
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.stacks.frames import bare, called_by_user, in_call, inner_machinery, is_user
from mpmon.diagnosis.stacks.native_waits import FOR_THREADS, Sort
from mpmon.diagnosis.stacks.shapes import Shape, shape
from mpmon.diagnosis.stacks.waits import (
    FROM_PEOPLE,
    SIGNAL_CALLS,
    STOPPED,
    Wait,
    WaitState,
    context,
    in_own_code,
    polled,
    wait_state,
)
from mpmon.diagnosis.state.history import History, ThreadKey
from mpmon.diagnosis.state.retried_locks import polled_locks
from mpmon.diagnosis.state.snapshot_index import SnapshotIndex
from mpmon.diagnosis.thresholds import FROZEN_AFTER_S
from mpmon.model import Frame, Snapshot

_SOCKET_WAITS = frozenset({Wait.POLL, Wait.SOCKET, Wait.UNKNOWN})

_EVENTS = frozenset({Wait.POLL, Wait.EVENT_LOOP, Wait.SOCKET, Wait.PIPE_READ})
"""Waits for something outside of the process."""

_OF_LIBRARIES = frozenset({Wait.POLL, Wait.EVENT_LOOP, Wait.PIPE_READ, Wait.CONDITION, Wait.SLEEP})
"""Waits of threads that work for a library alone."""

_GPU_CALLS = frozenset({Wait.POLL, Wait.FUTEX, Wait.FILE, Wait.UNKNOWN})
"""The kinds by which the kernel may report a sleep in the driver's library, which can be in any of these calls."""

_OF_PERSONS = re.compile(r"terminal:/dev/(pts/\d+|tty\d*|console)")
"""Terminals at which persons type; others are devices, such as serial lines."""

_PROGRAMS = frozenset({"main", "subprocess"})
"""Processes that run a program of their own."""


class ThreadWaits(SnapshotIndex):
    """The waits of the threads of one snapshot, and what kind of code they wait in."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memo | None = None) -> None:
        """As `SnapshotIndex`."""
        super().__init__(history, snapshot, memory)
        self._local_waits: dict[ThreadKey, WaitState] = {}

    def local_wait(self, key: ThreadKey) -> WaitState:
        """What a thread waits for, without what other machines and the Flight Recorders say: see `JobState.wait_state`."""
        if key not in self._local_waits:
            found = self.read_wait(key)
            refined = (refine(self, key, found) for refine in _BY_KIND[found.kind])
            self._local_waits[key] = next((state for state in refined if state), found)
        return self._local_waits[key]

    def read_wait(self, key: ThreadKey) -> WaitState:
        """What the thread's own rows say; a process that the kernel shows as stopped now outranks earlier samples."""
        process = self.processes.get(key[0])
        if process and process.state == "T":
            return STOPPED
        stack, blocked, past = self.stacks.get(key), self.blocked.get(key), self.thread_history(key)
        sample = past.samples[-1] if past and past.samples else None
        same = sample is not None and sample.stack is stack and sample.blocked is blocked
        return sample.wait_state if sample and same else wait_state(stack, blocked)

    # Whose code it is

    def shape(self, key: ThreadKey) -> Shape:
        """Whose code a thread is in."""
        stack = self.stacks.get(key)
        return self.memory.same(("shape", key), shape, stack) if stack else Shape()

    def is_asked_for(self, key: ThreadKey) -> bool:
        """The thread runs a task of a library that code of another process is in."""
        return any(self._askers.get(name, set[int]()) - {key[0]} for name in self.shape(key).runs)

    @cached_property
    def _askers(self) -> dict[str, set[int]]:
        """The processes whose code has called a library, by its package."""
        found: dict[str, set[int]] = defaultdict(set)
        for key in self.stacks:
            for name in self.shape(key).asks:
                found[name].add(key[0])
        return found

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

    def serves_library(self, key: ThreadKey) -> bool:
        """The thread was started by a library and runs no user code: it waits for the library's requests."""
        return key[0] != key[1] and bool(self.shape(key).serves)

    # Its loop

    def tests(self, key: ThreadKey) -> tuple[str, ...] | None:
        """The conditions that a thread's polling loop tests, see `Stack.tests`."""
        stack = self.stacks.get(key)
        return stack.tests if stack else None

    def acts(self, key: ThreadKey) -> bool:
        """Each turn of a thread's loop may bring something in from outside, see `Stack.acts`."""
        stack = self.stacks.get(key)
        return stack is not None and stack.acts

    def has_other_work(self, key: ThreadKey) -> bool:
        """A thread's loop goes on where its wait has brought nothing, see `Stack.other_work`."""
        stack = self.stacks.get(key)
        return stack is not None and stack.other_work

    def keeps_books(self, key: ThreadKey) -> bool:
        """A thread beside the main one only reports that its process lives, see `Stack.keeps_books`; not one that tells it to
        others after long naps: these may wait for that.
        """
        stack, row = self.stacks.get(key), self.blocked.get(key)
        if key[0] == key[1] or stack is None or not stack.keeps_books:
            return False
        return not (stack.tells and (pause_s(row) or 0.0) > FROZEN_AFTER_S)

    def only_polls(self, key: ThreadKey) -> bool:
        """A thread beside the main one, in no task, does nothing as long as what it polls for is not there, see
        `Stack.polls_for`.
        """
        stack = self.stacks.get(key)
        return key[0] != key[1] and stack is not None and stack.polls_for is not None and context(stack) is None

    def in_event(self, key: ThreadKey) -> bool:
        """The thread is in `Event.wait`: exactly one `Condition.wait` below it. A barrier, or a condition with its own
        predicate, shows more frames.
        """
        stack = self.stacks.get(key)
        return stack is not None and [bare(frame.function) for frame in inner_machinery(stack)] == ["wait", "wait"]

    # Who is at the other end

    def joined_thread(self, key: ThreadKey) -> ThreadKey | None:
        """The thread that a thread joins in C."""
        blocked = self.blocked.get(key)
        joined = (key[0], blocked.joins) if blocked and blocked.joins else None
        return joined if joined and self.thread_history(joined) else None

    def is_read_from(self, key: ThreadKey) -> bool:
        """A service thread waits for the next request on a connection at whose other end a main thread waits for its
        answer: each takes it to be the other's turn.
        """
        items = self.waits_on(key)
        if self.read_wait(key).kind is not Wait.SERVICE or [item.kind for item in items] != ["socket"]:
            return False
        clients = self.waiters.get(items[0].peer or "", frozenset()) - {key[0]}
        return any(self.read_wait((pid, pid)).kind is Wait.SOCKET for pid in clients)

    @cached_property
    def typists(self) -> dict[str, list[ThreadKey]]:
        """By terminal, the Python threads that wait for its output: they own its controlling side, and type."""
        found: dict[str, list[ThreadKey]] = {}
        for key in self.stacks:
            for item in self.waits_on(key):
                if item.kind == "pty" and item.peer:
                    found.setdefault(item.peer, []).append(key)
        return found

    def is_typed_to(self, key: ThreadKey) -> bool:
        """A program of the job, rather than a person, types to the thread's terminal, as pexpect does."""
        return any(self.typists.get(item.id) for item in self.waits_on(key))

    def helpmates(self, pid: int) -> list[int]:
        """Children that are alive and work on their own, neither on request nor for the whole job."""
        found = [child for child in self.clients.get(pid, ()) if self.is_alive(child)]
        return [child for child in found if self.role(child).kind not in HELPERS and not self.role(child).serves]

    def native_loops(self, pid: int) -> list[ThreadKey]:
        """Native threads in which a C library's event loop waits for events from outside the process; torch's own service
        threads are excluded.
        """
        natives = [key for key in self.all_threads(pid) if key not in self.stacks and self._awaits_events(key)]
        return [key for key in natives if not ((fact := self.native_facts.get(key)) and fact.is_at_rest)]

    def _awaits_events(self, key: ThreadKey) -> bool:
        return wait_state(None, self.blocked.get(key)).kind in _EVENTS

    def accepts_in_c(self, key: ThreadKey) -> bool:
        """The thread waits in a futex while a library such as gRPC runs a server in native threads, one of which accepts
        connections.
        """
        if not self.may_be_native(key) or self.shape(key).runs:
            # A library that runs the job's code there has given it a request.
            return False
        return self.listens_in_c(key[0])

    def listens_in_c(self, pid: int) -> bool:
        """A library runs a server in native threads, one of which accepts connections. In a rank, threads with unread C frames do
        not count, as they may be torch's.
        """
        ours = pid not in self.in_process_group
        loops = [other for other in self.native_loops(pid) if ours or other in self.native_facts]
        return any(item.listens for other in loops for item in self.waits_on(other))


Refine = Callable[[ThreadWaits, ThreadKey, WaitState], WaitState | None]
"""What a thread waits for, given what its own rows say; `None` if these are right."""


def _on_silent_mount(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    mount = index.silent_mount(key) if index.silent_mounts else None
    return WaitState(Wait.FILE, f"waiting for a file on {mount.path}", found.frame) if mount else None


def _for_lock(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    lock = index.wanted_lock(key)
    held = lock and (index.lock_holders(lock) or index.holders_before_fork(key[0], lock))
    return WaitState(Wait.THREAD_LOCK, "a lock", found.frame) if held else None


def _for_store(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """The thread waits, in a call made by its own code, for an answer from torch's store."""
    if not index.store_ends or not in_own_code(index.stacks.get(key)):
        return None
    asks = any(item.peer in index.store_ends for item in index.waits_on(key))
    return WaitState(Wait.STORE_KEY, "a key of the store", found.frame) if asks else None


def _at_exit(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """The interpreter has been finalized, and exit(3) runs the libraries' remaining handlers."""
    fact = index.native_facts.get(key)
    if key in index.stacks or fact is None or not fact.leaves:
        return None
    return WaitState(Wait.EXIT, _own_threads_words(index, key) or "what a library does at exit", found.frame)


def _for_own_threads(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    words = _own_threads_words(index, key)
    return WaitState(Wait.FUTEX, words, found.frame) if words else None


def _own_threads_words(index: ThreadWaits, key: ThreadKey) -> str:
    """What a thread waits for, if its C frames show that no other process is involved."""
    if joined := index.joined_thread(key):
        return f"the end of the native {index.thread_words(joined)}"
    fact = index.native_facts.get(key)
    return fact.wait.waits_for if fact and fact.wait and fact.is_surely(Sort.TEAM, Sort.SEMAPHORE) else ""


def _for_lost_lock(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """What ends a pool waits for the lock with which its workers take tasks, and none of them has it."""
    uses = [index.uses.get(item.id, []) for item in index.waits_on(key) if item.kind == "semaphore"]
    lost = any(rows and all(row.count == 0 for row in rows) for rows in uses)
    return WaitState(Wait.LOCK, "the lock of its pool's queue", found.frame) if lost else None


def _for_work(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """A rank's main thread is in torch's `Work.wait()`: its C frames say so, or it is in a native wait that is not a
    Python lock.
    """
    in_group = key[0] == key[1] and key[0] in index.in_process_group and index.role(key[0]).is_rank
    fact = index.native_facts.get(key)
    named = fact is not None and fact.is_surely(Sort.RANKS)
    is_work = in_group and (named or (index.asks_for_work(key) and index.is_native(key)))
    return in_collective(found.frame) if is_work else None


def in_collective(frame: Frame | None = None) -> WaitState:
    """The thread waits for an operation of its process group that is not known."""
    return WaitState(Wait.COLLECTIVE, ASYNCHRONOUS, frame, ASYNCHRONOUS)


def _for_answer(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    calls = key[0] in index.in_rpc and index.is_native(key)
    return WaitState(Wait.REMOTE_CALL, "an answer of another process", found.frame) if calls else None


def _for_requests(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    return WaitState(Wait.FUTEX, "requests", found.frame) if index.accepts_in_c(key) else None


def _for_clients(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """Connections are among the events that it waits for."""
    listens = any(item.listens for item in index.waits_on(key))
    return msgspec.structs.replace(found, words="requests") if listens else None


def _for_gpu(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """The thread sleeps in a CUDA call, by its C frames."""
    fact = index.native_facts.get(key)
    return WaitState(Wait.GPU, "its GPU", found.frame) if fact and fact.is_surely(Sort.GPU) else None


def _for_file_lock(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    return WaitState(Wait.FILE_LOCK, "a file lock", found.frame) if polled_locks(index, key, Wait.SLEEP) else None


def _for_typist(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    typed = found.frame is None and index.is_typed_to(key)
    return WaitState(Wait.PIPE_READ, "input from its terminal") if typed else None


def _for_person(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """The thread waits at a terminal for a person, not in a debugger. The person can type: a process that is not in the
    foreground of its terminal is stopped when it reads from it (SIGTTIN of termios(3)).
    """
    stack, blocked = index.stacks.get(key), index.blocked.get(key)
    debugs = stack is not None and any(frame.file.endswith(DEBUGGERS) for frame in stack.frames)
    by_person = blocked is not None and any(map(_OF_PERSONS.fullmatch, blocked.waits_on))
    asks = by_person and not debugs and not index.is_typed_to(key)
    return WaitState(Wait.SERVICE, "somebody to type", found.frame) if asks else None


def _for_next_request(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    return WaitState(Wait.SOCKET, "the next request", found.frame) if index.is_read_from(key) else None


def _for_library(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    serves = index.serves_library(key)
    return WaitState(Wait.SERVICE, "work from its library", found.frame) if serves else None


def _for_library_alone(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    alone = key[0] != key[1] and in_call(index.stacks.get(key), SERVES_ITSELF)
    return WaitState(Wait.SERVICE, "work from its library", found.frame) if alone else None


def _for_next_task(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """The loop of a program that is a library's, such as a notebook's kernel, whose native threads accept connections, while no
    code of the job is in it.
    """
    tasks = (row.frames for row in index.snapshot.tasks if (row.pid, row.tid) == key)
    stacks = (stack.frames for stack in (index.stacks.get(key),) if stack)
    rests = not any(is_user(frame.file) for frames in (*tasks, *stacks) for frame in frames)
    serves = key[0] == key[1] and rests and index.listens_in_c(key[0])
    return WaitState(Wait.SERVICE, "requests", found.frame) if serves else None


def _for_signal(index: ThreadWaits, key: ThreadKey, found: WaitState) -> WaitState | None:
    """The main thread of a program or process that only has to stay alive while other threads or processes work: it is
    in `signal.pause()`, in an event wait or loop that a SIGTERM handler or a request may end, or in a loop or for an
    event that never ends.
    """
    blocked, kind = index.blocked.get(key), index.role(key[0]).kind
    own = key[0] == index.snapshot.root_pid or kind in _PROGRAMS
    if key[0] != key[1] or blocked is None or not (own or kind == "process"):
        return None
    if found.kind is not Wait.EVENT_LOOP and in_call(index.stacks.get(key), TURNS):
        # A task holds up its event loop.
        return None
    stays = (
        (blocked.syscall in SIGNAL_CALLS and not (blocked.has_limit and FROM_PEOPLE.isdisjoint(blocked.signals)))
        or (index.tests(key) == () and not index.acts(key))
        or (own and (_has_own_event(index, key) or _is_parked(index, key, found)))
        # A child inherits its parent's handlers, whether or not they have any effect in the child.
        or ((own or blocked.has_limit) and _may_be_told(index, key) and _asks_to_be_told(index, key, found))
    )
    # In a job of a single thread there is nobody for whom it could wait instead.
    others = len(index.threads(key[0])) > 1 or bool(index.helpmates(key[0])) or len(index.processes) == 1
    return WaitState(Wait.SIGNAL, "a signal", found.frame) if stays and others else None


def _is_parked(index: ThreadWaits, key: ThreadKey, found: WaitState) -> bool:
    """The thread is in an event loop that hears nobody, and all of whose tasks stay until they are cancelled."""
    kinds = [row.waits for row in index.snapshot.tasks if (row.pid, row.tid) == key and not row.only_reports]
    hears = len(index.blocked[key].waits_on) > 1 or any(item.listens for item in index.waits_on(key))
    return found.kind is Wait.EVENT_LOOP and bool(kinds) and set(kinds) == {"requests"} and not hears


def _asks_to_be_told(index: ThreadWaits, key: ThreadKey, found: WaitState) -> bool:
    """The thread waits for an event of its own program, or in a loop that tests a plain flag, such as `while running`; not in a
    task of a library that another process asks for something.
    """
    if index.is_asked_for(key):
        return False
    if row := polled(index.stacks.get(key)):
        return row.kind is Wait.CONDITION
    tests = index.tests(key)
    flag = bool(tests) and all(name == "?" or name.startswith(".") for name in tests) and not index.acts(key)
    return flag or (found.kind is Wait.CONDITION and _stays_in_event(index, key))


def _stays_in_event(index: ThreadWaits, key: ThreadKey) -> bool:
    """The program itself waits for the event: user code, or the package whose program this is. A wait inside a library
    that user code called is for the library's result.
    """
    stack = index.stacks.get(key)
    own = stack is not None and (called_by_user(stack) or not any(is_user(row.file) for row in stack.frames))
    return own and index.in_event(key)


def _has_own_event(index: ThreadWaits, key: ThreadKey) -> bool:
    """`threading.Event().wait()`: nobody else can set the event, so the program itself, not a task in it, was told to stay."""
    stack = index.stacks.get(key)
    return stack is not None and any(frame.unshared for frame in stack.frames) and not index.shape(key).runs


def _may_be_told(index: ThreadWaits, key: ThreadKey) -> bool:
    """The handler of a signal, or a thread that listens, may set an event of the process."""
    process = index.processes[key[0]]
    if process.catches_term or process.catches_call:
        return True
    return any(item.listens for other in index.threads(key[0]) for item in index.waits_on(other))


def _of(*kinds: Wait) -> frozenset[Wait]:
    return frozenset(kinds)


_REFINED: tuple[tuple[frozenset[Wait], Refine], ...] = (
    (frozenset(Wait), _on_silent_mount),
    (frozenset(Wait), _for_lock),
    (_SOCKET_WAITS, _for_store),
    (_of(Wait.FUTEX), _at_exit),
    (_of(Wait.FUTEX), _for_own_threads),
    (_of(Wait.FUTEX), _for_work),
    (_of(Wait.FUTEX), _for_answer),
    (_of(Wait.FUTEX), _for_requests),
    (_GPU_CALLS, _for_gpu),
    (_of(Wait.SLEEP), _for_file_lock),
    (_of(Wait.DEBUGGER), _for_typist),
    (_of(Wait.DEBUGGER), _for_person),
    (_of(Wait.JOIN_PROCESS), _for_lost_lock),
    (_of(Wait.SERVICE), _for_next_request),
    (_of(Wait.THREAD_QUEUE), _for_library),
    (_OF_LIBRARIES, _for_library_alone),
    (_of(Wait.EVENT_LOOP), _for_next_task),
    (frozenset(Wait), _for_signal),
    (_of(Wait.POLL, Wait.EVENT_LOOP), _for_clients),
)
"""For waits of these kinds, a closer look."""

_BY_KIND: dict[Wait, tuple[Refine, ...]] = {
    kind: tuple(refine for kinds, refine in _REFINED if kind in kinds) for kind in Wait
}
