"""Tasks of asyncio's event loops: which coroutine awaits what, at which line.

All tasks are in one set of weak references in the module `asyncio.tasks`. A task leads to its coroutine, the coroutine
to the call it awaits, and so on inwards; the innermost awaits a future, which the task records too. If the two do not
agree, or the thread of the loop has run meanwhile, the tasks are read again. From Python 3.14 on tasks are kept
elsewhere.

Sources: Modules/_asynciomodule.c, Objects/setobject.c, Lib/asyncio/tasks.py and Lib/_weakrefset.py of CPython 3.10 to 3.13.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from mpmon.model import SENDS_TO_OTHERS, Frame, Task, Unknown
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.awaits import NONE, Await, Awaits
from mpmon.probes.interpreter.chained import TASK
from mpmon.probes.interpreter.codes import Code, Codes
from mpmon.probes.interpreter.coroutines import Chain, Coroutines
from mpmon.probes.interpreter.frames import FrameInMemory, Tables
from mpmon.probes.interpreter.modules import names_of
from mpmon.probes.interpreter.objects import FUNCTION_AT, LONG, METHOD, NAME_AT, TEXT, Objects, set_items
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reach import SENDS, Reach
from mpmon.probes.interpreter.runtime import NoInterpreter, Runtime, runtime_of
from mpmon.probes.interpreter.tids import Tids
from mpmon.probes.interpreter.walk import Walk
from mpmon.probes.memory import Memory

MOST_TASKS = 400
"""Most tasks of one process that are followed."""

MOST_CALLS_OF_ALL = 2000
"""Most calls of all tasks of one process together; beyond it no more tasks are followed."""

MOST_REFERENCES = 1 << 11
"""Most tasks of one process that are examined, of any loop, done or not."""

LONGEST_NAME = 100

ATTEMPTS = 4
"""Most readings of loops that run meanwhile, before giving up."""

SETS = ((3, 12), b"_scheduled_tasks", b"_all_tasks")
"""From that version on the set of tasks has the first name, before it the second."""

REFERENT = 16
"""PyWeakReference.wr_object."""

SLEEP = "sleep"

MOST_TIMERS = 500
"""Most timers of one loop; with more, nothing is reported."""

ARGUMENTS_AT = 16
"""TimerHandle: its arguments, its callback, the cancelled flag: `__slots__` in alphabetical order (asyncio/events.py)."""

PLAIN_TIMERS = frozenset({"_set_result_unless_cancelled", "_release_waiter", "_on_timeout", "_process_keepalive"})
"""Functions of asyncio/futures.py, tasks.py and timeouts.py that end a sleep or a wait with a time limit, and one of
aiohttp/web_protocol.py that closes a connection which has no request.
"""

ELSEWHERE = -1
"""Instead of the number of handlers: the loop keeps its timers and handlers in C."""

LOOP_AT = 16
"""Task to its loop."""

RUNNING = b"__asyncio_running_event_loop__"
"""Before 3.13, the key of the loop in the dictionary of the thread that runs it."""

HOLDER, HELD_LOOP = b"_RunningLoopHolder", 16
"""Before 3.12, the value there is an object of this type, which leads to the loop."""

PENDING = 0
"""`fut_state`."""

RAN_ON = "its event loop kept running while its tasks were read"
LOST = "the tasks of its event loop cannot be followed"
TOO_MANY = "its event loops have more tasks than are read"
OTHERS = "its event loops have tasks of a class that is not known"
NOT_KNOWN = "how this version of Python keeps the tasks of its event loops is not known"


class Reading(msgspec.Struct):
    """What one look at the loops of one process found."""

    tasks: tuple[Task, ...] = ()
    unknown: Unknown | None = None
    """Why the tasks are incomplete."""


@may_hang
def read_tasks(proc: Proc, pid: int, loops: Collection[int]) -> Reading:
    """The tasks of the event loops that run in these threads of a process."""
    found: list[Task] = []
    problem = ""
    for _ in range(ATTEMPTS):
        tids = Tids(proc, pid)
        try:
            with Memory(proc, pid) as memory:
                search = _Search(memory, runtime_of(proc, pid, memory), tids, loops)
                found = search.tasks()
            problem = search.problem
        except NoInterpreter as reason:
            return Reading(unknown=Unknown(table="tasks", pid=pid, reason=str(reason)))
        except OSError as reason:
            words = f"memory cannot be read ({(reason.strerror or 'failed').lower()})"
            return Reading(unknown=Unknown(table="tasks", pid=pid, reason=words))
        except Torn as reason:
            found, problem = [], str(reason) or LOST
        ran = tids.ran()
        if problem != LOST and ran.isdisjoint(loops):
            return Reading(tuple(found), Unknown(table="tasks", pid=pid, reason=problem) if problem else None)
        found = [row for row in found if row.tid not in ran]
        problem = problem if ran.isdisjoint(loops) else RAN_ON
    return Reading(tuple(found), Unknown(table="tasks", pid=pid, reason=problem))


class _TaskObject(msgspec.Struct):
    """One task, as recorded in its own structure."""

    address: int
    tid: int
    name: str
    waiter: int
    """The future it waits for; 0 for none."""
    chain: Chain


class _Search:
    """One reading of one process."""

    def __init__(self, memory: Memory, runtime: Runtime, tids: Tids, loops: Collection[int]) -> None:
        self._memory = memory
        self._runtime = runtime
        self._layout = runtime.layout
        self._objects = Objects(memory, runtime.layout)
        self._coroutines = Coroutines(self._objects, runtime.layout)
        self._tids = tids
        self._loops = loops
        self._known: dict[int, tuple[int | None, int]] = {}
        """Loops by address, with the number of their callbacks, and of those that handle signals."""
        self._reach = Reach(memory, runtime.layout)
        self.problem = ""

    def tasks(self) -> list[Task]:
        """The rows, shorter names first, so that `Task-2` comes before `Task-10`. Raises `Torn`."""
        if self._layout.coroutine_state is None:
            self.problem = NOT_KNOWN
            return []
        found = list(self._task_objects())
        wanted = dict.fromkeys(call.code for task in found for call in task.chain.calls)
        codes = Codes(self._layout).read(self._memory, wanted)
        tables, awaits = Tables(self._objects), Awaits(self._objects, self._layout, self._tids.pid)
        stacks = [self._frames(task, codes, tables) for task in found]
        rows = [self._row(*one, codes, awaits) for one in zip(found, stacks, strict=True)]
        wanted = {awaits.address(name): name for row in rows for name in (row.waits_on, row.object) if name}
        rows = [self._with_others(*one, wanted) for one in zip(rows, found, stacks, strict=True)]
        return sorted(rows, key=lambda row: (len(row.name), row.name, row.object))

    # Finding tasks

    def _task_objects(self) -> Iterator[_TaskObject]:
        """Tasks of the requested loops that are not done. Raises `Torn`."""
        threads = self._running()
        tasks = calls = 0
        for reference in self._references():
            address = self._objects.word(reference + REFERENT)
            if not self._is_pending(address):
                continue
            tid = threads.get(self._objects.word(address + LOOP_AT))
            if tid is None:
                continue
            if tasks >= MOST_TASKS or calls >= MOST_CALLS_OF_ALL:
                self.problem = TOO_MANY
                return
            waiter, coroutine, name = self._objects.words("QQQ", address + self._layout.task_waiter)
            chain = self._coroutines.follow(coroutine)
            yield _TaskObject(address, tid, self._name(name), waiter, chain)
            tasks, calls = tasks + 1, calls + len(chain.calls)

    def _references(self) -> Sequence[int]:
        names = names_of(self._objects, self._runtime, b"asyncio.tasks")
        since, new, old = SETS
        kept = self._objects.named(names, new if self._layout.version >= since else old) if names else None
        data = self._objects.attribute(kept, b"data") if kept else None
        if not data:
            raise Torn
        found = [
            item for item in set_items(self._objects, data) if self._objects.type_name(item).startswith(b"weakref")
        ]
        if len(found) > MOST_REFERENCES:
            self.problem = TOO_MANY
        return found[:MOST_REFERENCES]

    def _is_pending(self, address: int) -> bool:
        """Whether a task is not done; a task of a class that is not asyncio's own cannot be read. Raises `Torn`."""
        bases = self._objects.bases(address) if address else (NONE,)
        if TASK not in bases:
            self.problem = self.problem if NONE in bases else OTHERS
            return False
        return self._state(address) == PENDING

    def _state(self, future: int) -> int:
        """Of a future or task. Raises `Torn`."""
        (state,) = self._objects.words("I", future + self._layout.future_state)
        return state

    def _running(self) -> Mapping[int, int]:
        """The loops that the requested threads run, whoever made them, with the kernel's id of each thread. Raises `Torn`."""
        threads = Walk(self._memory, self._runtime).threads()
        known = ((self._loop_of(thread.address), self._tids.of(thread.native_id)) for thread in threads)
        return {loop: tid for loop, tid in known if loop and tid is not None and tid in self._loops}

    def _loop_of(self, thread: int) -> int | None:
        kept: int | None = self._objects.word(thread + self._layout.running_loop)
        if kept and self._layout.version < (3, 13):
            kept = self._objects.named(kept, RUNNING)
        if kept and self._objects.type_name(kept) == HOLDER:
            return self._objects.word(kept + HELD_LOOP)
        return kept

    def _name(self, thing: int) -> str:
        """From 3.13 on a number stands for a name that was never requested."""
        flags = self._objects.flags(thing) if thing else 0
        if flags & LONG:
            return f"Task-{self._objects.integer(thing)}"
        return self._objects.text(thing, LONGEST_NAME) if flags & TEXT else ""

    # Rows

    def _frames(self, task: _TaskObject, codes: Mapping[int, Code], tables: Tables) -> Sequence[FrameInMemory]:
        """The calls of a task, innermost first. Raises `Torn`."""
        calls = task.chain.calls
        if not all(call.code in codes for call in calls):
            raise Torn
        return [FrameInMemory(tables, self._layout, call.frame, codes[call.code]) for call in reversed(calls)]

    def _row(
        self, task: _TaskObject, frames: Sequence[FrameInMemory], codes: Mapping[int, Code], awaits: Awaits
    ) -> Task:
        """Raises: Torn."""
        blocks = awaits.blocks(frames) if task.chain.begun and not task.chain.runs else ()
        found = self._await(task, frames, blocks, awaits)
        return Task(
            pid=self._tids.pid,
            tid=task.tid,
            object=awaits.task(task.address),
            name=task.name,
            frames=tuple(_frame(codes[call.code], call.instruction) for call in reversed(task.chain.calls)),
            waits=found.kind,
            waits_on=found.on,
            tasks=found.tasks,
            child=found.child,
            timed=found.timed,
            holds=awaits.held(frames, blocks),
        )

    def _reaches(self, row: Task, frames: Sequence[FrameInMemory], wanted: Mapping[int, str]) -> tuple[str, ...] | None:
        """What a task that sleeps could help, by name."""
        found = self._reach.of(frames, wanted) if row.waits == SLEEP else None
        return None if found is None else tuple(sorted({**wanted, SENDS: SENDS_TO_OTHERS}[one] for one in found))

    def _with_others(
        self, row: Task, task: _TaskObject, stack: Sequence[FrameInMemory], wanted: Mapping[int, str]
    ) -> Task:
        """What a task could do for others, and what the callbacks of its loop could do for it. Raises `Torn`."""
        callbacks, handlers = self._callbacks(self._objects.word(task.address + LOOP_AT), wanted)
        return msgspec.structs.replace(
            row, reaches=self._reaches(row, stack, wanted), callbacks=callbacks, handlers=handlers,
        )  # fmt: skip

    def _callbacks(self, loop: int, wanted: Collection[int]) -> tuple[int | None, int]:
        """Number of a loop's signal handlers, and of its timers that are neither a sleep nor a time limit and could help any
        of the wanted objects, or send something, `None` if they cannot be read; and of the signal handlers alone.
        """
        if loop not in self._known:
            try:
                self._known[loop] = self._count_callbacks(loop, wanted)
            except Torn:
                self._known[loop] = None, 0
        return self._known[loop]

    def _count_callbacks(self, loop: int, wanted: Collection[int]) -> tuple[int | None, int]:
        timers = self._objects.attribute(loop, b"_scheduled")
        if not timers:
            return None, ELSEWHERE
        if self._objects.type_name(timers) != b"list":
            raise Torn
        count = self._objects.word(timers + 16)
        if count > MOST_TIMERS:
            raise Torn
        handlers = self._objects.attribute(loop, b"_signal_handlers")
        signals = len(self._objects.items(handlers)) if handlers else 0
        return signals + sum(self._could_help(timer, wanted) for timer in self._objects.items(timers)), signals

    def _could_help(self, timer: int, wanted: Collection[int]) -> bool:
        """Raises: Torn."""
        return self._calls_something(timer) and self._reach.of_call(timer + ARGUMENTS_AT, wanted) != frozenset()

    def _calls_something(self, timer: int) -> bool:
        """Raises: Torn."""
        if self._objects.type_name(timer) != b"TimerHandle":
            return True
        _, callback, cancelled = self._objects.words("QQQ", timer + ARGUMENTS_AT)
        if self._objects.integer(cancelled):
            return False
        kind = self._objects.type_name(callback)
        function = self._objects.word(callback + FUNCTION_AT) if kind == METHOD else callback
        if self._objects.type_name(function) != b"function":
            return True
        return self._objects.text(self._objects.word(function + NAME_AT)) not in PLAIN_TIMERS

    def _await(
        self, task: _TaskObject, frames: Sequence[FrameInMemory], blocks: Sequence[int], awaits: Awaits
    ) -> Await:
        """Raises: Torn."""
        chain = task.chain
        if chain.runs:
            return Await("running")
        if not task.waiter:
            return Await("ready")
        if chain.is_cut or not chain.begun:
            return Await()
        if chain.awaited != task.waiter:
            # An awaited object may be anything with an `__await__` method, but the two cannot be different futures.
            if awaits.is_future(chain.awaited):
                raise Torn
            return Await()
        if awaits.is_future(task.waiter) and self._state(task.waiter) != PENDING:
            return Await("ready")
        return awaits.of(task.waiter, frames, blocks)


def _frame(code: Code, instruction: int) -> Frame:
    return Frame(function=code.function, file=code.file, line=code.line(instruction))
