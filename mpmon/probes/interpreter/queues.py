"""The multiprocessing queues of a program: which pipe, locks and semaphores belong together.

A `Queue` is a pipe, two locks and a semaphore that counts the room left (Lib/multiprocessing/queues.py); to the kernel
these are four unrelated things.  The objects that connect them are found in two ways, both without a search:

- the creator of a `Queue` has it in `_afterfork_registry` of Lib/multiprocessing/util.py, and so has a fork of the
  creator;
- a process that was sent one (spawn, forkserver), or has a `SimpleQueue`, has it in a variable of some call, or in an
  attribute of an object bound to such a variable.

`SemLockObject` is in Modules/_multiprocessing/semaphore.c, `Connection` in Lib/multiprocessing/connection.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mpmon.probes.files import Proc
from mpmon.probes.interpreter.frames import Frames
from mpmon.probes.interpreter.modules import names_of
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reachable import Reachable
from mpmon.probes.interpreter.runtime import NoInterpreter, Runtime, find_runtime
from mpmon.probes.maps import Area
from mpmon.probes.memory import Memory

MOST_REGISTERED = 20_000

MOST_OBJECTS = 2000
"""Most objects examined that the variables lead to."""

KINDS = (b"JoinableQueue", b"SimpleQueue", b"Queue")
"""Classes of Lib/multiprocessing/queues.py, derived ones first."""

PARTS = frozenset({b"_reader", b"_writer", b"_rlock", b"_wlock", b"_sem", b"_maxsize", b"_unfinished_tasks", b"_cond"})

CODE = frozenset({b"module", b"type", b"function"})
"""Types of objects whose attributes are the program itself."""

UNBOUNDED = 2**31 - 1
"""SEM_VALUE_MAX: the initial count of an unbounded queue."""

REFERENT = 16
"""PyWeakReference.wr_object."""

HANDLE = 16
"""SemLockObject.handle, after PyObject_HEAD."""


class Lock(msgspec.Struct, frozen=True):
    """One lock or semaphore between processes, as seen by this process."""

    ledger: int
    """Address of its SemLockObject."""
    word: int
    """The address at which the semaphore is mapped."""


class QueueObject(msgspec.Struct, frozen=True):
    """One queue, as seen by this process."""

    kind: str
    """`Queue`, `JoinableQueue`, `SimpleQueue`."""
    descriptors: tuple[int, ...]
    """Descriptors of its pipe, the reading end first; none that this process has closed."""
    readers: Lock | None
    """Held by the process that reads the pipe."""
    writers: Lock | None
    room: Lock | None
    """Counts the room left."""
    most: int | None
    """Initial count of room."""
    tasks: Lock | None = None
    """Of a `JoinableQueue`: counts the items not yet reported as done."""
    joined: Lock | None = None
    """Of a `JoinableQueue`: what `join` sleeps on."""

    def locks(self) -> Iterator[tuple[str, Lock]]:
        """The locks and semaphores it has, by name."""
        named = (
            ("room", self.room), ("read_lock", self.readers), ("write_lock", self.writers), ("tasks", self.tasks),
            ("joined", self.joined),
        )  # fmt: skip
        for name, lock in named:
            if lock:
                yield name, lock


class Found(msgspec.Struct):
    """What one look at one process found."""

    queues: list[QueueObject]
    whole: bool = True
    """False if a part could not be followed, so that another look may find more."""
    problem: str = ""
    """Why the queues that the process made could not be found."""


def queues(proc: Proc, pid: int, everything: list[Area]) -> Found:
    """The queues of one process, given its mappings."""
    try:
        with Memory(proc, pid) as memory:
            runtime = find_runtime(proc, pid, memory, everything)
            search = _Search(memory, runtime)
            search.run()
    except NoInterpreter as reason:
        return Found([], problem=str(reason))
    except OSError as problem:
        return Found([], problem=f"memory cannot be read ({(problem.strerror or 'failed').lower()})")
    return search.found


class _Search:
    def __init__(self, memory: Memory, runtime: Runtime) -> None:
        self._memory = memory
        self._objects = Objects(memory, runtime.layout)
        self._runtime = runtime
        self._reachable = Reachable(self._objects, MOST_OBJECTS, self._visit)
        self.found = Found([])

    def run(self) -> None:
        try:
            for reference in self._registered():
                self._try(reference)
        except Torn:
            self.found.problem = "the queues it made could not be followed in its memory"
        frames = Frames(self._memory, self._objects, self._runtime)
        try:
            for thread in frames.threads():
                for frame in frames.of(thread):
                    self._reachable.follow(frame)
        except Torn:
            self.found.whole = False

    def _try(self, reference: int) -> None:
        """A queue that is being created or destroyed must not hide the others."""
        try:
            self._note(self._objects.word(reference + REFERENT))
        except Torn:
            self.found.whole = False

    # Queues it made

    def _registered(self) -> Iterator[int]:
        """The weak references in the registry of `multiprocessing.util`. Raises `Torn`."""
        names = names_of(self._objects, self._runtime, b"multiprocessing.util")
        registry = self._objects.named(names, b"_afterfork_registry") if names else None
        kept = self._objects.attribute(registry, b"data") if registry else None
        for _, reference in self._objects.pairs(kept, MOST_REGISTERED) if kept else ():
            yield reference

    # Queues its calls have

    def _visit(self, thing: int, bases: tuple[bytes, ...]) -> tuple[int, ...]:
        """Note a queue; of any other object, return what its attributes are bound to. Raises `Torn`."""
        leads_nowhere = self._note(thing) or not CODE.isdisjoint(bases)
        return () if leads_nowhere else self._objects.values(thing)

    # One queue

    def _note(self, thing: int) -> bool:
        """Whether it is a queue; if so, note it. Raises `Torn`."""
        bases = self._objects.bases(thing)
        kind = next((kind for kind in KINDS if kind in bases), None)
        if kind is None:
            return False
        parts = self._objects.attributes(thing, PARTS)
        if b"_reader" not in parts or b"_rlock" not in parts:
            return False
        self._reachable.skip(thing)
        self.found.queues.append(self._queue(kind.decode(), parts))
        return True

    def _queue(self, kind: str, parts: dict[bytes, int]) -> QueueObject:
        ends = [self._descriptor(parts[end]) for end in (b"_reader", b"_writer") if end in parts]
        size, condition = parts.get(b"_maxsize"), parts.get(b"_cond")
        sleepers = self._objects.attribute(condition, b"_wait_semaphore") if condition else None
        return QueueObject(
            kind, tuple(end for end in ends if end is not None),
            self._lock(parts.get(b"_rlock")), self._lock(parts.get(b"_wlock")), self._lock(parts.get(b"_sem")),
            self._objects.plain_integer(size), self._lock(parts.get(b"_unfinished_tasks")), self._lock(sleepers),
        )  # fmt: skip

    def _descriptor(self, connection: int) -> int | None:
        """The descriptor of a `Connection`, or of torch's wrapper around one (torch/multiprocessing/queue.py)."""
        known = self._objects.attributes(connection, frozenset((b"_handle", b"conn")))
        if b"conn" in known:
            return self._descriptor(known[b"conn"])
        return self._objects.plain_integer(known.get(b"_handle"))

    def _lock(self, thing: int | None) -> Lock | None:
        ledger = self._objects.attribute(thing, b"_semlock") if thing else None
        if not ledger or not self._objects.type_name(ledger).startswith(b"_multiprocessing.SemLock"):
            return None
        return Lock(ledger, self._objects.word(ledger + HANDLE))
