"""Lock holders, waits between threads, and positions of loops, from the frames of one process."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise

import msgspec

from mpmon.model import JoinTarget, KnownChild, LockUse, Unknown
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.blocks import Blocks
from mpmon.probes.interpreter.chained import sources
from mpmon.probes.interpreter.children import Children
from mpmon.probes.interpreter.contents import Contents, is_standard
from mpmon.probes.interpreter.executors import futures_in, has_tasks
from mpmon.probes.interpreter.frames import FrameInMemory, Frames
from mpmon.probes.interpreter.groups import group_at_hand
from mpmon.probes.interpreter.held import BY_HAND, GIVES_BACK, TAKES, Lock, Locks
from mpmon.probes.interpreter.matching import matched_in
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import NoInterpreter, Runtime, runtime_of
from mpmon.probes.interpreter.scheduled import about_to_begin, loop_of
from mpmon.probes.interpreter.things import CALLERS, POSITION_AT, repeats
from mpmon.probes.interpreter.tids import Tids
from mpmon.probes.interpreter.walk import PythonThread
from mpmon.probes.memory import Memory
from mpmon.probes.namespaces import Namespace

TORN = "frames of a running thread could not be followed"

WAITS_FOR_WORK = frozenset({"wait", "synchronize"})
"""The methods of `torch.distributed.Work` and of its futures that wait (torch/csrc/distributed/c10d/Work.hpp)."""

NO_POSITION = -1
"""Of an iterator whose position is unknown."""

RANGE_OF_VALUES, STEP_AT = (3, 12), 24
"""From this version on, the iterator of a range keeps its next value instead of an index; and where its step is."""

STEPS, MOST_STEPS = 64, 1 << 20
"""Number of times the current instruction of a call is read, and an upper limit of the instructions of any code."""

_MOVED = re.compile(rb"rchar: ([0-9]{1,19})\nwchar: ([0-9]{1,19})\n")
"""proc_pid_io(5), which exists for each thread too."""

DEEP = 16
"""Innermost calls whose instruction is read repeatedly: a deep recursion must not make a look long."""

Note = Callable[[int, list[FrameInMemory]], None]


class Findings(msgspec.Struct):
    """What one look at one process found."""

    locks: tuple[LockUse, ...] = ()
    awaited: tuple[JoinTarget, ...] = ()
    remembered: tuple[KnownChild, ...] = ()
    unknown: Unknown | None = None
    """Why the result is incomplete."""
    turns: Mapping[int, tuple[tuple[int, ...], ...]] = {}
    """`Stack.turns` of the `running`, by thread."""
    contents: Mapping[int, tuple[tuple[int, int, int], ...]] = {}
    """`Stack.contents` of the `looping`, by thread."""
    counts: Mapping[int, tuple[tuple[int, int, int, dict[str, int]], ...]] = {}
    """`Stack.counts` of the `looping`, by thread."""
    turning: Mapping[int, tuple[int, ...]] = {}
    """`Stack.turning` of the `looping`, by thread."""
    matching: Mapping[int, int] = {}
    """`Stack.matching` of the `looping`, by thread."""
    moved: Mapping[int, tuple[int, int]] = {}
    """`Stack.read` and `Stack.wrote` of the `looping`, by thread."""


@may_hang
def look_inside(
    proc: Proc,
    pid: int,
    sleepers: Mapping[int, str],
    *,
    running: Collection[int] = (),
    looping: Collection[int] = (),
    is_parent: bool = True,
) -> Findings:
    """Locks and awaited threads of one process, the loop positions of its `running` threads, what the variables of its
    `looping` threads lead to, and, for a parent, the children it remembers.

    `sleepers` are the threads that wait in a private futex, with the id of the word they sleep on.
    """
    try:
        tids = Tids(proc, pid)
        with Memory(proc, pid) as memory:
            runtime = runtime_of(proc, pid, memory)
            inside = _Inside(memory, runtime, tids, sleepers, is_parent=is_parent)
            inside.read()
            inside.note_entering(looping, sleepers)
            turns, contents, turning = inside.turns(running), inside.contents(looping), inside.turning(looping)
            counts, matching = inside.counts, inside.matching(looping)
        ran = tids.ran()
    except NoInterpreter as reason:
        return Findings(unknown=Unknown(table="locks", pid=pid, reason=str(reason)))
    except OSError as problem:
        reason = f"memory cannot be read ({(problem.strerror or 'failed').lower()})"
        return Findings(unknown=Unknown(table="locks", pid=pid, reason=reason))
    return Findings(
        tuple(msgspec.structs.replace(row, exact=False) if row.tid in ran else row for row in inside.locks),
        tuple(inside.awaited),
        tuple(_seen_from_here(inside.remembered, Namespace(proc, pid))),
        Unknown(table="locks", pid=pid, reason=inside.problem) if inside.problem else None,
        turns,
        contents,
        counts,
        turning,
        matching,
        {tid: counts for tid in looping if (counts := _moved(proc, pid, tid)) is not None},
    )


def _moved(proc: Proc, pid: int, tid: int) -> tuple[int, int] | None:
    """Bytes that a thread got from read(2) etc., and passed to write(2) etc.: proc_pid_io(5)."""
    try:
        found = _MOVED.search(proc.read(pid, "task", tid, "io"))
    except OSError:
        return None
    return (int(found[1]), int(found[2])) if found else None


def _seen_from_here(rows: Iterable[KnownChild], namespace: Namespace) -> Iterator[KnownChild]:
    """Children by their pids in mpmon's namespace; a reaped child has none any more, and keeps the number it had."""
    for row in rows:
        child = namespace.child(row.child) or (None if row.returncode is None else row.child)
        if child is not None:
            yield msgspec.structs.replace(row, child=child)


def _is_wait(frame: FrameInMemory) -> bool:
    """In `Condition.wait` of Lib/threading.py, also below `Event.wait`."""
    return frame.code.name == "wait" and frame.code.file.endswith("/threading.py")


class _Inside:
    """One walk through all threads of one process."""

    def __init__(
        self, memory: Memory, runtime: Runtime, tids: Tids, sleepers: Mapping[int, str], *, is_parent: bool
    ) -> None:
        self._is_parent = is_parent
        self._runtime = runtime
        self._objects = Objects(memory, runtime.layout)
        self._layout = runtime.layout
        self._frames = Frames(memory, self._objects, runtime)
        self._blocks = Blocks(memory, self._objects, self._layout)
        self._locks = Locks(self._objects, self._layout, self._blocks, tids.pid)
        self._tids = tids
        self._sleepers = sleepers
        self._by_ident: dict[int, int] = {}
        self._stacks: dict[int, list[FrameInMemory]] = {}
        self._running: dict[int, int] = {}
        """Futures by address, with the thread that runs the task of each."""
        self._loops: dict[int, int] = {}
        """Event loops by address, with the thread that each runs in."""
        self._scheduled: dict[int, int] | None = None
        """Futures of coroutines that are about to begin, with the thread of the loop of each."""
        self._executors: dict[int, list[int]] = {}
        """Threads of executors, by the address of the queue they take tasks from."""
        self._queued: dict[int, frozenset[int]] = {}
        """Futures of the tasks in these queues, read once a thread is found waiting for a future."""
        self.locks: list[LockUse] = []
        self._ownerless: set[str] = set()
        """Held locks that do not record their owner."""
        self._wanted: dict[int, Lock] = {}
        """What threads wait for, by thread."""
        self.awaited: list[JoinTarget] = []
        self.counts: dict[int, tuple[tuple[int, int, int, dict[str, int]], ...]] = {}
        """`Stack.counts` by thread, once its contents were read."""
        self.remembered: tuple[KnownChild, ...] = ()
        self.problem = ""

    def read(self) -> None:
        """Fill the tables."""
        try:
            threads = self._frames.threads()
        except Torn:
            self.problem = "the list of Python threads could not be followed"
            return
        known = [(thread, tid) for thread in threads if (tid := self._tids.of(thread.native_id))]
        if not known:
            self.problem = "no Python thread of the interpreter is a thread of the process"
            return
        self._by_ident = {thread.ident: tid for thread, tid in known}
        stacks = self._stacks = {tid: self._stack(thread) for thread, tid in known}
        for tid, frames in stacks.items():
            self._try(self._note_held, tid, frames)
            self._try(self._note_task, tid, frames)
        if self._is_parent:
            children = Children(self._objects, self._tids.pid)
            for frames in stacks.values():
                children.search(frames)
            with suppress(Torn):
                children.search_started(self._runtime)
            self.remembered = children.found
        for tid, frames in stacks.items():
            if tid in self._sleepers:
                self._try(self._note_wanted, tid, frames)
                self._try(self._note_awaited, tid, frames)
        self._note_full_executors()
        self._note_taken_by_hand()
        self.locks = [self._doubted(row) for row in self.locks]

    def turns(self, tids: Collection[int]) -> dict[int, tuple[tuple[int, ...], ...]]:
        """Address, position and call depth of the iterators on the value stacks of these threads; see `Stack.turns`."""
        return {tid: tuple(dict.fromkeys(self._positions(self._stacks[tid]))) for tid in tids if self._stacks.get(tid)}

    def contents(self, tids: Collection[int]) -> dict[int, tuple[tuple[int, int, int], ...]]:
        """What the variables of these threads lead to; see `Stack.contents`. Fills `counts`."""
        found: dict[int, tuple[tuple[int, int, int], ...]] = {}
        for tid in tids:
            if frames := self._stacks.get(tid):
                contents = Contents(self._objects)
                found[tid] = tuple(contents.of(frames[::-1]))
                self.counts[tid] = tuple(contents.counts)
        return found

    def turning(self, tids: Collection[int]) -> dict[int, tuple[int, ...]]:
        """Which calls of these threads are going round a loop at this moment; see `Stack.turning`."""
        return {tid: tuple(self._turning(self._stacks[tid][::-1])) for tid in tids if self._stacks.get(tid)}

    def matching(self, tids: Collection[int]) -> dict[int, int]:
        """The length of the text that these threads match with a regular expression; see `Stack.matching`."""
        found: dict[int, int] = {}
        for tid in tids:
            with suppress(Torn):
                frames = self._stacks.get(tid)
                length = matched_in(self._objects, frames[0]) if frames else None
                found |= {} if length is None else {tid: length}
        return found

    def _turning(self, frames: list[FrameInMemory]) -> Iterator[int]:
        for place, frame in list(enumerate(frames))[-DEEP:]:
            with suppress(Torn):
                steps = [self._step_now(frame) for _ in range(STEPS)]
                # Inner calls may have returned, and anything may lie in their place.
                is_there = all(0 <= step < MOST_STEPS for step in steps)
                if is_there and (any(b < a for a, b in pairwise(steps)) or frame.jumps_back()):
                    yield place

    def _step_now(self, frame: FrameInMemory) -> int:
        self._objects.forget_pages()
        return frame.step()

    def _positions(self, frames: list[FrameInMemory]) -> Iterator[tuple[int, ...]]:
        for place, frame in enumerate(reversed(frames)):
            try:
                for value in frame.slots:
                    kind = self._objects.kind(value)
                    if at := POSITION_AT.get(kind):
                        yield value, self._position(value, kind, at), place
                    elif kind and kind not in CALLERS and self._goes_on(value, kind):
                        yield value, NO_POSITION, place
            except Torn:
                continue

    def _position(self, iterator: int, kind: bytes, at: int) -> int:
        """Raises: Torn."""
        (position,) = self._objects.words("q", iterator + at)
        if kind == b"range_iterator" and self._runtime.layout.version >= RANGE_OF_VALUES:
            # The next value, which falls with a negative step: Objects/rangeobject.c.
            (step,) = self._objects.words("q", iterator + STEP_AT)
            return position if step > 0 else NO_POSITION
        return position

    def _stack(self, thread: PythonThread) -> list[FrameInMemory]:
        try:
            return list(self._frames.of(thread))
        except Torn as reason:
            self.problem = str(reason) or TORN
            return []

    def _try(self, note: Note, tid: int, frames: list[FrameInMemory]) -> None:
        try:
            note(tid, frames)
        except Torn as reason:
            self.problem = str(reason) or TORN

    # Locks

    def _note_held(self, tid: int, frames: list[FrameInMemory]) -> None:
        given_back = {lock.address for frame in frames for lock in self._given_back_in(frame)}
        for depth, frame in enumerate(reversed(frames)):
            for lock, by_itself in self._locks.held_in(frame):
                named = not lock.owner or self._by_ident.get(lock.owner) == tid
                if lock.locked and named and lock.address not in given_back:
                    row = self._use(tid, lock, holds=True, frame=frame, depth=depth)
                    self._ownerless |= set() if lock.owner else {lock.id}
                    kept = bool(lock.owner) or not any(map(_gives_back, frames[: len(frames) - depth]))
                    self.locks.append(row if kept and by_itself else msgspec.structs.replace(row, exact=False))

    def _note_taken_by_hand(self) -> None:
        """Of a lock that someone waits for, in nobody's block: the one thread that may have taken it by hand. A thread that was
        not read may have it, too, and so may any other whose calls take or release locks at all.
        """
        if self.problem or not all(self._stacks.values()):
            return
        held = {row.object for row in self.locks if row.holds}
        wanted = {lock.id: lock for lock in self._wanted.values() if lock.id not in held and not lock.owner}
        with suppress(Torn):
            by_hand = (
                {tid: found for tid, frames in self._stacks.items() if (found := _by_hand(frames))} if wanted else {}
            )
            for lock in wanted.values():
                others = ((tid, self._besides(tid, lock, found)) for tid, found in by_hand.items())
                may = list(islice(((tid, found) for tid, found in others if found), 2))
                if len(may) == 1 and (row := self._taken_in(lock, *may[0])):
                    self.locks.append(row)

    def _besides(self, tid: int, lock: Lock, found: list[tuple[int, FrameInMemory]]) -> list[tuple[int, FrameInMemory]]:
        """The calls without the innermost one of a thread that waits for this lock, which wants it."""
        innermost = len(self._stacks[tid]) - 1
        return [row for row in found if row[0] < innermost] if self._waits_for(tid, lock) else found

    def _waits_for(self, tid: int, lock: Lock) -> bool:
        return tid in self._wanted and self._wanted[tid].id == lock.id

    def _taken_in(self, lock: Lock, tid: int, calls: list[tuple[int, FrameInMemory]]) -> LockUse | None:
        """The innermost of these calls that may have taken this lock by hand. Raises `Torn`."""
        for depth, frame in calls:
            if self._locks.may_be_taken_in(frame, lock):
                return msgspec.structs.replace(self._use(tid, lock, holds=True, frame=frame, depth=depth), exact=False)
        return None

    def _doubted(self, row: LockUse) -> LockUse:
        """A lock without an owner may have been released by a finished call, and taken by hand by another thread."""
        if not row.holds or row.object not in self._ownerless:
            return row
        waiters = {use.tid for use in self.locks if not use.holds and use.object == row.object}
        others = (frames for tid, frames in self._stacks.items() if tid != row.tid and tid not in waiters)
        try:
            by_hand = any(
                TAKES in frame.names for frames in others for frame in frames if not is_standard(frame.code.file)
            )
        except Torn:
            by_hand = True
        return msgspec.structs.replace(row, exact=False) if by_hand else row

    def _given_back_in(self, frame: FrameInMemory) -> Iterator[Lock]:
        """Within `Condition.wait` its lock is not held, although the `with` block around it has not ended."""
        if _is_wait(frame):
            yield from self._locks.of(frame.argument(0))

    def note_entering(self, polling: Collection[int], sleeping: Collection[int]) -> None:
        """Note the locks of a program's own making that these threads poll for, or sleep for, to enter a `with` block."""
        for tid in polling:
            self._try(self._note_polled, tid, self._stacks.get(tid, []))
        for tid in set(sleeping).difference(polling):
            self._try(self._note_slept_for, tid, self._stacks.get(tid, []))

    def _note_polled(self, tid: int, frames: list[FrameInMemory]) -> None:
        self._note_entering(tid, frames, asleep=False)

    def _note_slept_for(self, tid: int, frames: list[FrameInMemory]) -> None:
        # Any other wait is in a lock that is known by itself, or in C, such as in a barrier of ranks.
        if frames and _is_wait(frames[0]):
            self._note_entering(tid, frames, asleep=True)

    def _note_entering(self, tid: int, frames: list[FrameInMemory], *, asleep: bool) -> None:
        if found := self._blocks.entering(frames):
            kind, name, place = found
            row = LockUse(pid=self._tids.pid, tid=tid, object=name, kind=kind, holds=False, exact=False, asleep=asleep)
            depth = len(frames) - place - 1
            self.locks.append(msgspec.structs.replace(row, function=frames[place].code.name, depth=depth))

    def _note_wanted(self, tid: int, frames: list[FrameInMemory]) -> None:
        """The lock that a sleeping thread waits for, as an operand of its innermost call."""
        if not frames:
            return
        operands = (lock for value in frames[0].upper for lock in self._locks.operand(value))
        lock = next((lock for lock in operands if self._awaits(tid, lock)), None)
        if lock is None:
            return
        self._wanted[tid] = lock
        owner = self._by_ident.get(lock.owner)
        wanted = self._use(tid, lock, holds=False, frame=frames[0], depth=len(frames) - 1)
        self.locks.append(msgspec.structs.replace(wanted, owner_missing=bool(lock.owner and owner is None)))
        if owner and not any(row.holds and row.object == lock.id for row in self.locks):
            row = self._use(owner, lock, holds=True)
            self.locks.append(msgspec.structs.replace(row, exact=self._took_by_hand(owner)))

    def _took_by_hand(self, tid: int) -> bool:
        """Whether one of its calls takes locks by hand; otherwise the ident may be that of an ended thread."""
        return any(TAKES in frame.names for frame in self._stacks.get(tid, ()))

    def _awaits(self, tid: int, lock: Lock) -> bool:
        """Whether it sleeps on the lock's word; where locks have no such word, whether the lock is locked at all."""
        return lock.id == self._sleepers[tid] if self._layout.lock_word else lock.locked

    def _use(
        self, tid: int, lock: Lock, *, holds: bool, frame: FrameInMemory | None = None, depth: int | None = None
    ) -> LockUse:
        name = frame.code.name if frame else None
        return LockUse(
            pid=self._tids.pid, tid=tid, object=lock.id, kind=lock.kind, holds=holds, function=name, depth=depth
        )

    # Threads and futures

    def _note_task(self, tid: int, frames: list[FrameInMemory]) -> None:
        """Note the executor of this thread and the future it works for, from the frames of `_worker` and
        `_WorkItem.run` (concurrent/futures/thread.py), and the event loop that it is in.
        """
        for frame in frames:
            if frame.code.name == "run_forever" and frame.code.file.endswith("asyncio/base_events.py"):
                self._loops[frame.argument(0)] = tid
            if not frame.code.file.endswith("concurrent/futures/thread.py"):
                continue
            if frame.code.name == "_worker" and (queue := frame.local("work_queue")):
                self._executors.setdefault(queue, []).append(tid)
            if frame.code.name == "run":
                item = frame.argument(0)
                future = self._objects.attribute(item, b"future") if item else None
                if future:
                    self._running[future] = tid

    def _note_awaited(self, tid: int, frames: list[FrameInMemory]) -> None:
        if frames and not is_standard(frames[0].code.file) and frames[0].names & WAITS_FOR_WORK:
            group = group_at_hand(self._objects, frames[0])
            row = JoinTarget(pid=self._tids.pid, tid=tid, kind="work")
            self.awaited.append(msgspec.structs.replace(row, group=group.name, members=group.members) if group else row)
            return
        for frame in frames:
            name, file = frame.code.name, frame.code.file
            if name == "join" and file.endswith("/threading.py"):
                self.awaited.append(JoinTarget(pid=self._tids.pid, tid=tid, kind="thread", by_tid=self._joined(frame)))
                return
            if name in ("result", "exception") and file.endswith("concurrent/futures/_base.py"):
                self.awaited.append(self._future(tid, frame.argument(0)))
                return
            if not file.endswith(("/threading.py", "concurrent/futures/_base.py")):
                return

    def _future(self, tid: int, future: int) -> JoinTarget:
        """The thread that runs a future's task, or the threads whose queue holds it: the task of this future, or of one
        that its result comes from; else the thread whose event loop has to run for it.
        """
        chain = list(sources(self._objects, self._layout, future)) if future else []
        for one in chain:
            runs = self._running.get(one)
            queued_for = () if runs else self._queued_for(one)
            if runs or queued_for:
                return JoinTarget(pid=self._tids.pid, tid=tid, kind="future", by_tid=runs, queued_for=queued_for)
        looping = loop_of(self._objects, chain, self._loops, self._due)
        return JoinTarget(pid=self._tids.pid, tid=tid, kind="future", by_tid=looping)

    @property
    def _due(self) -> dict[int, int]:
        """Read once a thread is found waiting for a future. Raises `Torn`."""
        if self._scheduled is None:
            self._scheduled = {}
            for loop, tid in self._loops.items():
                self._scheduled |= dict.fromkeys(about_to_begin(self._objects, loop), tid)
        return self._scheduled

    def _note_full_executors(self) -> None:
        """Note the sleeping threads of executors whose threads are all in tasks while others wait in the queue."""
        busy, noted = set(self._running.values()), {row.tid for row in self.awaited}
        for queue, tids in self._executors.items():
            waiting = [tid for tid in tids if tid in self._sleepers and tid not in noted]
            if waiting and busy.issuperset(tids) and self._is_queued(queue):
                threads = tuple(sorted(tids))
                rows = (JoinTarget(pid=self._tids.pid, tid=tid, kind="task", queued_for=threads) for tid in waiting)
                self.awaited.extend(rows)

    def _is_queued(self, queue: int) -> bool:
        """Tasks wait in this queue of an executor; `False` where that cannot be read."""
        with suppress(Torn):
            return not self.problem and has_tasks(self._objects, self._layout, queue)
        return False

    def _queued_for(self, future: int) -> tuple[int, ...]:
        """The threads of the executor whose queue holds a future's task; none if some threads could not be read, as one
        of these may belong to it. Raises `Torn`.
        """
        if self.problem:
            return ()
        for queue, tids in self._executors.items():
            if queue not in self._queued:
                self._queued[queue] = futures_in(self._objects, self._layout, queue)
            if future in self._queued[queue]:
                return tuple(sorted(tids))
        return ()

    def _joined(self, frame: FrameInMemory) -> int | None:
        thread = frame.argument(0)
        ident = self._objects.attribute(thread, b"_ident") if thread else None
        if not ident or self._objects.kind(ident) != b"int":
            return None
        return self._by_ident.get(self._objects.integer(ident))

    # Types

    def _goes_on(self, value: int, kind: bytes) -> bool:
        """Whether it is an iterator that may yet give something new."""
        try:
            return self._objects.is_iterator(value) and not repeats(self._objects, value, kind)
        except Torn:
            return False


def _by_hand(frames: list[FrameInMemory]) -> list[tuple[int, FrameInMemory]]:
    """The calls, innermost first and with the number of those outside of each, that take or release locks by hand."""
    own = ((len(frames) - place - 1, frame) for place, frame in enumerate(frames) if not is_standard(frame.code.file))
    return [(depth, frame) for depth, frame in own if not frame.names.isdisjoint(BY_HAND)]


def _gives_back(frame: FrameInMemory) -> bool:
    """Whether it may release a lock that it did not take, which the standard library does not do."""
    return not is_standard(frame.code.file) and bool(frame.names & GIVES_BACK)
