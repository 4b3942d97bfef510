"""What a future that a task awaits stands for: a timer, a lock, a queue, other tasks, the end of a child.

The future itself does not say.  The innermost asyncio functions among the task's calls do, by their names, and their
arguments lead to the lock or queue; a future of `gather` knows its children.  Nothing is said about any other future.

A lock of asyncio does not record its holder, but `async with` leaves the bound `__aexit__` on the value stack of its
frame until the block ends, as `with` does.

Sources: Lib/asyncio/locks.py, queues.py, tasks.py, taskgroups.py, timeouts.py, streams.py, base_subprocess.py of CPython 3.10 to
3.13; `_backends/_asyncio.py` of anyio 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from mpmon.probes.interpreter.chained import FUTURE, GATHERING, OF_EXECUTORS, TASK, sources
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import FUNCTION_AT, METHOD, NAME_AT, Objects, set_items
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reachable import CELL_AT

LOCKS = {b"Lock": "lock", b"Semaphore": "semaphore", b"BoundedSemaphore": "semaphore"}
"""Classes that `async with` takes, of asyncio and of libraries that name theirs alike, and the kind of wait for each; derived
ones come first.
"""

ENTERS = "__aenter__"
TAKES = frozenset({ENTERS, "acquire"})
"""Methods of these classes that wait until the lock is free; one of them enters a block."""

EVENT, CONDITION, BARRIER, QUEUE_JOIN, PROCESS, STREAM, ROOM, EXECUTOR, THREAD, REQUESTS = (
    "event", "condition", "barrier", "queue join", "process", "stream", "room", "executor", "thread", "requests",
)  # fmt: skip

FUNCTIONS: dict[tuple[str, str], str] = {
    ("tasks.py", "sleep"): "sleep",
    ("locks.py", "acquire"): "lock",
    ("locks.py", "wait"): EVENT,
    ("queues.py", "get"): "queue get",
    ("queues.py", "put"): "queue put",
    ("queues.py", "join"): QUEUE_JOIN,
    ("base_subprocess.py", "_wait"): PROCESS,
    ("subprocess.py", "wait"): PROCESS,
    ("base_events.py", "shutdown_default_executor"): EXECUTOR,
    ("base_events.py", "serve_forever"): REQUESTS,
    ("streams.py", "_wait_for_data"): STREAM,
    ("streams.py", "_drain_helper"): ROOM,
    ("tasks.py", "wait_for"): "tasks",
    ("tasks.py", "_wait"): "any task",
    ("taskgroups.py", "__aexit__"): "tasks",
    ("taskgroups.py", "_aexit"): "tasks",
}
"""Functions of asyncio, and what a task inside one waits for."""

OUTER = {EVENT: QUEUE_JOIN, CONDITION: BARRIER}
"""Primitives built on others: a wait for the key, inside a call of the value, is a wait for the value."""

OUTSIDE = frozenset({"selector_events.py", "unix_events.py", "base_events.py", "streams.py", "sslproto.py"})
"""Modules of asyncio that serve connections and pipes."""

IN_THREADS = (("/anyio/_backends/_asyncio.py", "run_sync_in_worker_thread"),)
"""Functions of libraries that wait for a thread of theirs."""

LIMITS, ENDLESS = {b"Timeout": b"_when", b"CancelScope": b"_deadline"}, float("inf")
"""Classes whose `async with` or `with` block has a time limit for its body: asyncio, async_timeout, anyio; with the attribute
that has the moment, which may be endless, or `None`.
"""

FLOAT_AT = 16
"""PyFloatObject.ob_fval."""

EXITS = frozenset({"__aexit__", "__exit__"})

NONE = b"NoneType"

MOST_TASKS = 400
"""Most tasks whose end one task awaits."""


class Await(msgspec.Struct):
    """What one task waits for; see `Task`."""

    kind: str | None = None
    on: str | None = None
    tasks: tuple[str, ...] = ()
    child: int | None = None
    timed: bool = False


class Awaits:
    """What the tasks of one process wait for."""

    def __init__(self, objects: Objects, layout: Layout, pid: int) -> None:
        self._objects = objects
        self._layout = layout
        self._pid = pid

    def task(self, address: int) -> str:
        """The id of a task."""
        return f"task:{self._pid}:{address:#x}"

    def is_future(self, thing: int) -> bool:
        """Raises: Torn."""
        return bool(thing) and FUTURE in self._objects.bases(thing)

    def of(self, future: int, frames: Sequence[FrameInMemory], blocks: Sequence[int]) -> Await:
        """What a future stands for, by the calls of the task that awaits it, innermost first. Raises `Torn`."""
        found = self._of(future, frames)
        found.timed = any(map(self._limits, blocks)) or any(map(self._is_limited, frames))
        return found

    def blocks(self, frames: Sequence[FrameInMemory]) -> tuple[int, ...]:
        """The objects of the `with` and `async with` blocks that a task is in. Raises `Torn`."""
        return tuple(owner for frame in frames if not _takes_limit(frame) for owner in self._exits(frame))

    def held(self, frames: Sequence[FrameInMemory], blocks: Sequence[int]) -> tuple[str, ...]:
        """The locks among these objects, except where the task is only waiting for one. Raises `Torn`."""
        found = Counter(lock for lock in map(self._lock_of, blocks) if lock)
        return tuple(map(self._id, found - Counter(self._not_held(frames))))

    def address(self, name: str | None) -> int:
        """The inverse of an id; 0 for none."""
        return int(name.rpartition(":")[2], 16) if name else 0

    def _id(self, thing: int) -> str:
        return f"asyncio:{self._pid}:{thing:#x}"

    # What a task waits for

    def _of(self, future: int, frames: Sequence[FrameInMemory]) -> Await:
        if TASK in self._objects.bases(future):
            return Await("tasks", tasks=(self.task(future),))
        if self._objects.bases(future)[0] == GATHERING:
            return self._ends(self._parts(self._objects.attribute(future, b"_children")), future)
        known = self._known(frames)
        if known is None:
            if frames and _room(frames[0]) in OUTSIDE:
                return Await(STREAM, self._id(future))
            return Await(THREAD if self._is_of_thread(future, frames) else "future", self._id(future))
        kind, frame = known
        if kind in ("sleep", EXECUTOR, REQUESTS):
            return Await(kind)
        if kind in ("tasks", "any task"):
            found = self._ends(self._awaited_by(frame), future)
            found.kind = kind if found.kind == "tasks" else found.kind
            return found
        thing = self._self(frame)
        if kind == EVENT and self._objects.word(thing) == 1:
            # Only the call refers to the event: it was made to wait for ever.
            return Await(REQUESTS)
        if kind == PROCESS:
            return Await(kind, child=self._child(frames))
        if kind == "lock":
            lock = self._lock_of(thing)
            return Await(LOCKS[self._lock_kind(lock)], self._id(lock)) if lock else Await("future", self._id(future))
        return Await(kind) if kind in (STREAM, ROOM) else Await(kind, self._id(thing))

    def _is_of_thread(self, future: int, frames: Sequence[FrameInMemory]) -> bool:
        """A thread of the process sets the result. Raises `Torn`."""
        if frames and any(
            frames[0].code.file.endswith(file) and frames[0].code.name == name for file, name in IN_THREADS
        ):
            return True
        return any(self._objects.bases(one)[0] == OF_EXECUTORS for one in sources(self._objects, self._layout, future))

    def _known(self, frames: Sequence[FrameInMemory]) -> tuple[str, FrameInMemory] | None:
        """The call that says what is awaited: the innermost, unless an outer call is built on it. Raises `Torn`."""
        best: tuple[str, FrameInMemory] | None = None
        for frame in frames:
            room = _room(frame)
            if not room:
                return best or (("lock", frame) if self._taken_by(frame) else None)
            kind = FUNCTIONS.get((room, frame.code.name))
            if kind == EVENT:
                own = self._objects.bases(self._self(frame))
                kind = next((name for base, name in _WAITED.items() if base in own), None)
            if kind and (best is None or kind == OUTER.get(best[0])):
                best = kind, frame
        return best

    def _awaited_by(self, frame: FrameInMemory) -> tuple[int, ...]:
        """The futures whose end this call waits for. Raises `Torn`."""
        if frame.code.name == "wait_for":
            awaited = self._local(frame, "fut")
            return (awaited,) if awaited else ()
        if frame.code.name == "_wait":
            return self._parts(self._local(frame, "fs"))
        return self._parts(self._objects.attribute(self._self(frame), b"_tasks"))

    def _ends(self, futures: Sequence[int], future: int) -> Await:
        """The awaited tasks; anything may end the wait if a future is among them that no thread completes. Raises `Torn`."""
        pending = [one for one in futures if self.is_future(one) and self._is_pending(one)]
        tasks = tuple(self.task(one) for one in pending if TASK in self._objects.bases(one))
        whole = len(tasks) == len(pending) and tasks and all(self.is_future(one) for one in futures)
        if whole:
            return Await("tasks", tasks=tasks)
        others = [one for one in pending if self.task(one) not in tasks]
        of_threads = bool(others) and all(self._is_of_thread(one, ()) for one in others)
        return Await(THREAD if of_threads else "future", self._id(future), tasks=tasks)

    def _is_pending(self, future: int) -> bool:
        return self._objects.words("I", future + self._layout.future_state)[0] == 0

    def _parts(self, thing: int | None) -> tuple[int, ...]:
        """The items of a list, tuple or set. Raises `Torn`."""
        kind = self._objects.type_name(thing) if thing else b""
        if not thing or kind not in (b"list", b"tuple", b"set", b"frozenset"):
            return ()
        found = tuple(set_items(self._objects, thing)) if kind.endswith(b"set") else self._objects.items(thing)
        if len(found) > MOST_TASKS:
            raise Torn
        return found

    def _child(self, frames: Sequence[FrameInMemory]) -> int | None:
        """The pid recorded by the transport of a subprocess. Raises `Torn`."""
        for frame in frames:
            if _room(frame) == "base_subprocess.py":
                pid = self._objects.plain_integer(self._objects.attribute(self._self(frame), b"_pid"))
                return pid if pid is not None and pid > 0 else None
        return None

    def _limits(self, owner: int) -> bool:
        """Whether the block of this object has a time limit. Raises `Torn`."""
        kind = next((base for base in self._objects.bases(owner) if base in LIMITS), None)
        moment = self._objects.attribute(owner, LIMITS[kind]) if kind else None
        found = self._objects.type_name(moment) if moment else b""
        if moment and found == b"float":
            return self._objects.words("d", moment + FLOAT_AT) != (ENDLESS,)
        return kind is not None and found != NONE

    def _is_limited(self, frame: FrameInMemory) -> bool:
        """Whether a call has a time limit for everything it awaits. Raises `Torn`."""
        limit = self._local(frame, "timeout") if _takes_limit(frame) else 0
        return bool(limit) and self._objects.type_name(limit) != NONE

    # Locks

    def _not_held(self, frames: Sequence[FrameInMemory]) -> Iterator[int]:
        """The locks of blocks that are being entered, and of conditions that are waited for. Raises `Torn`."""
        for frame in frames:
            waits = _room(frame) == "locks.py" and frame.code.name == "wait"
            if waits or frame.code.name == ENTERS:
                yield self._lock_of(self._self(frame))

    def _taken_by(self, frame: FrameInMemory) -> int:
        """The lock that this call waits to take, or 0. Raises `Torn`."""
        return self._lock_of(self._self(frame)) if frame.code.name in TAKES else 0

    def _exits(self, frame: FrameInMemory) -> Iterator[int]:
        """The objects whose `__exit__` or `__aexit__` is on a call's value stack, to be called later. Raises `Torn`."""
        for value in frame.alive():
            if value and self._objects.type_name(value) == METHOD:
                function, owner = self._objects.words("QQ", value + FUNCTION_AT)
                if self._objects.type_name(function) == b"function" and self._name(function) in EXITS:
                    yield owner

    def _name(self, function: int) -> str:
        return self._objects.text(self._objects.word(function + NAME_AT))

    def _lock_kind(self, thing: int) -> bytes:
        return next((base for base in self._objects.bases(thing) if base in LOCKS), b"")

    def _lock_of(self, thing: int) -> int:
        """The lock or semaphore itself, the lock of a condition, or 0. Raises `Torn`."""
        if not thing:
            return 0
        if b"Condition" in self._objects.bases(thing):
            thing = self._objects.attribute(thing, b"_lock") or 0
        return thing if thing and self._lock_kind(thing) else 0

    # Variables

    def _self(self, frame: FrameInMemory) -> int:
        """The first argument. Raises `Torn`."""
        return self._uncelled(frame.argument(0)) if frame.code.arguments else 0

    def _local(self, frame: FrameInMemory, name: str) -> int:
        return self._uncelled(frame.local(name))

    def _uncelled(self, thing: int) -> int:
        return self._objects.word(thing + CELL_AT) if thing and self._objects.type_name(thing) == b"cell" else thing


_WAITED = {b"Event": EVENT, b"Condition": CONDITION, b"Barrier": BARRIER}
"""Classes of Lib/asyncio/locks.py that have a method `wait`."""


def _takes_limit(frame: FrameInMemory) -> bool:
    """Whether it is a function of asyncio with a time limit among its arguments."""
    return _room(frame) == "tasks.py" and frame.code.name in ("wait_for", "_wait")


def _room(frame: FrameInMemory) -> str:
    """The asyncio file that a call is in; empty for a call elsewhere."""
    folder, _, name = frame.code.file.rpartition("/")
    return name if folder.endswith("/asyncio") and "-packages/" not in folder else ""
