"""The stacks of a process, read from its memory while it runs: its threads, their names, and the calls and lines they
are in.

The rows equal those made from py-spy's dumps, for a tenth of the cost, as most is known from the previous reading: a
thread that has not run since is where it was. Whether it ran follows from the kernel: the state of a thread; the CPU
time of the process, which advances whenever a thread leaves a CPU; and, if that advanced, the counters of each thread.

A thread that may have run while it was read is read again until two consecutive readings find the same calls; otherwise
it gets no row. Nothing is stopped or written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from mpmon.model import MPMON, CallPlace, Frame, Stack
from mpmon.probes.aside import may_hang
from mpmon.probes.calls import MAX_FRAMES, Numbers, bounded, rows
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.codes import Code, Codes
from mpmon.probes.interpreter.names import ThreadNames
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import NoInterpreter, Runtime, runtime_of
from mpmon.probes.interpreter.tids import Tids
from mpmon.probes.interpreter.values import Values
from mpmon.probes.interpreter.walk import Link, PythonThread, Walk
from mpmon.probes.memory import Memory
from mpmon.probes.syscalls import place_of

ATTEMPTS = 16
"""Most readings of a running thread before giving up."""

CODE_ATTEMPTS = 3
"""Most readings of the code objects of a running thread's calls, until the calls stay the same meanwhile."""

RAN_ON = "kept running while it was read"

LOST = "the list of its Python threads cannot be followed"

MOST_PROCESSES = 1024
"""Most processes whose state is kept between readings."""


class Reading(msgspec.Struct):
    """What one reading of one process found."""

    stacks: tuple[Stack, ...] = ()
    refused: str = ""
    """Why this interpreter is never read here; py-spy may know it."""
    problem: str = ""
    """Why some threads have no row."""
    gone: bool = False
    """The process has ended."""


class StackReader:
    """Reads one process repeatedly."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc = proc
        self._pid = pid
        self._runtime: Runtime | None = None
        self._numbers = Numbers()
        self._forget()

    def _forget(self) -> None:
        """Forget everything: the process may have become another program."""
        self._runtime = None
        self._codes: Codes | None = None
        self._names: ThreadNames | None = None
        self._addresses: tuple[int, ...] = ()
        """Addresses of its thread states at the last reading."""
        self._clock: int | None = None
        """The CPU time of the process at which all rows were exact."""
        self._counters: dict[int, bytes] = {}
        """Counters of the threads whose rows were exact."""
        self._rows: dict[int, Stack] = {}
        self._place: CallPlace | None = None
        """Where the main thread waited while it was read."""

    def read(self, taken_at: float) -> Reading:
        """The stacks of this moment, seconds since the epoch.

        Raises:
            OSError: its memory cannot be read.
        """
        clock = self._cpu_time()
        if clock is not None and clock == self._clock:
            return Reading(tuple(_again(row, taken_at) for row in self._rows.values()))
        tids = Tids(self._proc, self._pid)
        if not tids.counters:
            return Reading(gone=True)
        with Memory(self._proc, self._pid) as memory:
            try:
                return self._read(memory, tids, clock, taken_at)
            except (NoInterpreter, Torn) as reason:
                refused, was_read = str(reason) or LOST, bool(self._rows)
            self._forget()
            if not was_read:
                return Reading(refused=refused)
            try:
                # It may have become another program.
                return self._read(memory, tids, clock, taken_at)
            except (NoInterpreter, Torn) as reason:
                self._forget()
                return Reading(refused=str(reason) or LOST)

    def _cpu_time(self) -> int | None:
        return self._proc.clocks([self._pid])[0]

    def _read(self, memory: Memory, tids: Tids, clock: int | None, taken_at: float) -> Reading:
        """Raises: NoInterpreter, Torn."""
        runtime = self._runtime = self._runtime or runtime_of(self._proc, self._pid, memory)
        walk = Walk(memory, runtime)
        threads = walk.threads(self._addresses)
        self._addresses = tuple(thread.address for thread in threads)
        found = _by_tid(threads, tids)
        kept = {tid for tid in found if tid in self._rows and self._counters.get(tid) == tids.counters[tid]}
        fresh = {tid: states for tid, states in found.items() if tid not in kept}
        walk.follow([state for states in fresh.values() for state in states])
        self._place = self._read_place() if self._pid in fresh else None
        ran = self._ran(tids, clock, fresh)
        living = {tid: _in_calls(states) for tid, states in fresh.items() if tid not in tids.ended}
        self._numbers.turn(kept)
        made = self._made(memory, walk, _settled(walk, living, ran), ran, taken_at)
        self._rows = {tid: self._rows[tid] if tid in kept else made[tid] for tid in found if tid in kept or tid in made}
        self._counters = {tid: tids.counters[tid] for tid in self._rows if tid not in ran}
        missing = sorted(living.keys() - made.keys())
        self._clock = None if ran or missing else clock
        return Reading(
            tuple(_again(row, taken_at) if tid in kept else row for tid, row in self._rows.items()),
            problem=f"thread {', '.join(map(str, missing))} {RAN_ON}" if missing else "",
        )

    def _read_place(self) -> CallPlace | None:
        """Where the main thread waits; `None` where that cannot be read."""
        try:
            # Not by a descriptor that is kept: this reader does not learn when its process ends.
            return place_of(self._proc.read(self._pid, "task", self._pid, "syscall"))
        except OSError:
            return None

    def _ran(self, tids: Tids, clock: int | None, fresh: Collection[int]) -> set[int]:
        """Threads that may have run since their counters were read; those not `fresh` did not run before that."""
        # In this order: a thread that stops running in between advances the process's CPU time and its own counters.
        running = tids.running(fresh)
        return running if clock is not None and clock == self._cpu_time() else running | tids.moved()

    def _made(
        self,
        memory: Memory,
        walk: Walk,
        threads: Mapping[int, PythonThread],
        ran: Collection[int],
        taken_at: float,
    ) -> dict[int, Stack]:
        """The rows of these threads, without those that `ran` and whose calls are over. Raises `Torn`."""
        if not threads:
            return {}
        runtime = walk.runtime
        self._names = self._names or ThreadNames(runtime)
        threads, codes = self._with_codes(memory, walk, threads, ran)
        whole = {tid: _shown(thread) for tid, thread in threads.items()}
        frames = self._frames(Values(memory, runtime.layout), whole, codes)
        idents = {threads[tid].ident for tid in whole}
        names = self._names.read(Objects(memory, runtime.layout), idents)
        return {
            tid: Stack(
                pid=self._pid, tid=tid, thread_name=names.get(threads[tid].ident, ""), taken_at=taken_at,
                ident=threads[tid].ident, frames=frames[tid], owns_gil=threads[tid].owns_gil, active=tid in ran,
                exact=tid not in ran, reader=MPMON, place=self._place if tid == self._pid and tid not in ran else None,
            )
            for tid in whole
        }  # fmt: skip

    def _with_codes(
        self, memory: Memory, walk: Walk, threads: Mapping[int, PythonThread], ran: Collection[int]
    ) -> tuple[dict[int, PythonThread], dict[int, Code]]:
        """The threads whose calls have readable code objects, and these. Raises `Torn`.

        What runs may have ended a call meanwhile, and another code object may lie where the call's was: where one is seen for
        the first time, or was replaced before, the calls have to be the same afterwards.
        """
        known = self._codes = self._codes or Codes(walk.runtime.layout)
        found, left = dict(threads), CODE_ATTEMPTS
        while True:
            links = {tid: [link.code for link in _shown(thread)] for tid, thread in found.items()}
            codes = known.read(memory, dict.fromkeys(code for of_one in links.values() for code in of_one))
            whole = {tid for tid, of_one in links.items() if all(code in codes for code in of_one)}
            if not found.keys() - whole <= set(ran):
                raise Torn("a code object cannot be read")
            passing = {tid: found[tid] for tid in whole & set(ran) if not known.passing.isdisjoint(links[tid])}
            now = dict(zip(passing, walk.again(list(passing.values())), strict=True))
            over = {tid: thread for tid, thread in now.items() if not thread.same(passing[tid])}
            found = {tid: thread for tid, thread in found.items() if tid in whole and tid not in over}
            left -= 1
            if not over or not left:
                return found, codes
            found |= _settled(walk, over, ran)

    def _frames(
        self, values: Values, links: Mapping[int, Sequence[Link]], codes: Mapping[int, Code]
    ) -> dict[int, tuple[Frame, ...]]:
        calls = iter(values.calls([(link, codes[link.code]) for of_one in links.values() for link in of_one]))
        return {tid: rows([next(calls) for _ in of_one], tid, self._numbers) for tid, of_one in links.items()}


def _by_tid(threads: Iterable[PythonThread], tids: Tids) -> dict[int, list[PythonThread]]:
    """By the kernel's tid, one state per interpreter; only threads that the kernel has. Raises `NoInterpreter`."""
    found: dict[int, list[PythonThread]] = {}
    for thread in threads:
        tid = tids.of(thread.native_id)
        if tid is not None:
            found.setdefault(tid, []).append(thread)
    if not found:
        raise NoInterpreter("no Python thread of the interpreter is a thread of the process")
    return found


def _in_calls(states: Sequence[PythonThread]) -> PythonThread:
    """The state in which a thread runs now. Raises `NoInterpreter`."""
    running = [state for state in states if state.links or not state.is_whole]
    if len(running) > 1:
        raise NoInterpreter("one of its threads is in calls of two interpreters")
    return (running or states)[0]


def _shown(thread: PythonThread) -> Sequence[Link]:
    """The calls to make rows of; the outermost calls found of a truncated stack are somewhere in its middle."""
    return thread.links[:MAX_FRAMES] if thread.is_cut else bounded(thread.links)


def _settled(walk: Walk, threads: Mapping[int, PythonThread], ran: Collection[int]) -> dict[int, PythonThread]:
    """Threads that did not run, or had the same calls twice. Raises `Torn` if frames of the former lead nowhere."""
    settled = {tid: thread for tid, thread in threads.items() if tid not in ran}
    if not all(thread.is_whole for thread in settled.values()):
        raise Torn("the frames of a thread could not be followed")
    unsettled = {tid: thread for tid, thread in threads.items() if tid in ran}
    for _ in range(ATTEMPTS):
        if not unsettled:
            break
        now = dict(zip(unsettled, walk.again(list(unsettled.values())), strict=True))
        settled.update((tid, thread) for tid, thread in now.items() if thread.same(unsettled[tid]))
        unsettled = {tid: thread for tid, thread in now.items() if tid not in settled}
    return settled


def _again(row: Stack, taken_at: float) -> Stack:
    """The row of a thread that has not run since: none of its numbers has changed."""
    frames = row.frames
    if any(frame.trend for frame in frames):
        frames = tuple(msgspec.structs.replace(frame, trend=None) if frame.trend else frame for frame in frames)
    return msgspec.structs.replace(row, taken_at=taken_at, frames=frames)


@lru_cache(maxsize=MOST_PROCESSES)
def _reader(proc: Proc, pid: int) -> StackReader:
    return StackReader(proc, pid)


@may_hang
def read_stacks(proc: Proc, pid: int, taken_at: float) -> Reading:
    """The stacks of one process; the results are kept for the next reading.

    Raises:
        OSError: its memory cannot be read.
    """
    return _reader(proc, pid).read(taken_at)
