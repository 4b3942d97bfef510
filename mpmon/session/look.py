"""What the last thorough look at one process found, and what of it the next look may keep."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from mpmon.diagnosis.progress.loop_progress import may_go_round
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.stacks.frames import asking, called_by_user, is_user
from mpmon.diagnosis.stacks.waits import Wait, in_command_line, in_own_code, wait_state
from mpmon.diagnosis.thresholds import RETRY_S, SOON_S
from mpmon.model import (
    Blocked,
    Frame,
    Handle,
    JoinTarget,
    KernelObject,
    KnownChild,
    LockUse,
    SemaphoreUse,
    Stack,
    Task,
    Unknown,
)
from mpmon.probes.syscalls import POLLS, SLEEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The first picture of the screen needs no look and should not wait for it.
    from mpmon.probes.interpreter import Findings
    from mpmon.probes.kernel import KernelLook
    from mpmon.probes.kernel.holdings import ServedFile
    from mpmon.probes.loops import Loop

FIRST_INTERVAL_S, LONGEST_INTERVAL_S = 1.0, 60.0
"""Seconds between two thorough looks at a running process: at first, and at most."""

GROWTH = 1.7
"""Factor of the interval after each look that finds the same functions."""

KNOWN_CALLS = 8
"""Most system calls of a main thread that are remembered: a worker alternates between a few."""

FEEDER = "QueueFeederThread"
"""Name that multiprocessing gives to the threads that send the items of a queue (multiprocessing/queues.py)."""


class Look:
    """The rows of one process."""

    def __init__(self, pid: int, at: float, kernel: KernelLook, *, runs: int, main_call: bytes) -> None:
        self.pid = pid
        self.at = at
        self.runs = runs
        """How often the main thread had run when its frames were read."""
        self.interval_s = FIRST_INTERVAL_S
        self.known_calls = (main_call,)
        """System calls that recent looks found the main thread in, as the kernel prints them, the latest first."""
        self.unknowns: tuple[Unknown, ...] = (kernel.unknowns[pid],) if pid in kernel.unknowns else ()
        # From the kernel.
        self.blocked: tuple[Blocked, ...] = kernel.blocked.get(pid, ())
        self.handles: tuple[Handle, ...] = kernel.handles.get(pid, ())
        self.served: tuple[ServedFile, ...] = kernel.served.get(pid, ())
        """One file of each externally served file system that the process uses."""
        names = {*kernel.locked.get(pid, ()), *(name for row in self.blocked for name in row.waits_on)}
        self.objects: tuple[KernelObject, ...] = tuple(kernel.objects[name] for name in sorted(names))
        self.may_be_outside = frozenset(
            item.id for item in self.objects if item.kind == "pipe" or is_taken_semaphore(item)
        )
        """The objects its threads wait on that processes outside of the job may also have."""
        # From py-spy.
        self.stacks: tuple[Stack, ...] | None = None
        """`None` while the stacks of the previous look still hold."""
        # From memory: see `holders`.
        self.semaphores: tuple[SemaphoreUse, ...] = ()
        self.semaphores_asked: frozenset[str] = frozenset()
        self.semaphores_problem: Unknown | None = None
        self.locks: tuple[LockUse, ...] = ()
        self.locks_problem: Unknown | None = None
        self.blocks: tuple[LockUse, ...] = ()
        """Its threads in blocks that others poll to enter, of those in `blocks_asked`."""
        self.blocks_asked: frozenset[str] = frozenset()
        self.awaited: tuple[JoinTarget, ...] = ()
        self.remembered: tuple[KnownChild, ...] = ()
        self.children: frozenset[int] = frozenset()
        """The children it had when `remembered` was read."""
        self.running: frozenset[int] = frozenset()
        """Threads found running now and at the previous look."""
        self.carrying: frozenset[int] = frozenset()
        """Threads in `running` in a task whose loops carry something from turn to turn."""
        self.looping: frozenset[int] = frozenset()
        """Threads in `running` for which the two previous looks showed no progress."""
        self.polling: frozenset[int] = frozenset()
        """Threads that at the previous look slept (a main thread anywhere, others in their own code) or waited in their
        own code with a short time limit, and have gone on since.
        """
        self.in_collective: frozenset[int] = frozenset()
        """Its main thread, if this look and the previous one found it at the same lines, in a collective or perhaps in one."""
        self.tasks: tuple[Task, ...] = ()
        """Tasks of its event loops: see `loops`."""
        self.tasks_problem: Unknown | None = None
        self.loops_ran: dict[int, float | None] = {}
        """When the threads of these loops had last run when `tasks` was read."""
        self.before_last: tuple[Stack, ...] = ()
        """Stacks of the previous look."""

    # What may be kept of the previous look

    def same_calls(self, before: Look | None) -> bool:
        """Whether every thread is in the same system call as at the previous look: same arguments, same stack pointer.

        A thread that sleeps again is not: a loop sleeps in the same call at each turn; what it did in between is
        unknown.
        """
        if before is None or not before.stacks or not self.blocked or self._slept_again(before):
            return False
        return _calls(self.blocked) == _calls(before.blocked) and all(
            row.syscall not in (None, "running") for row in self.blocked
        )

    def _slept_again(self, before: Look) -> frozenset[int]:
        """Python threads whose sleep at the previous look is over, or may be."""
        python = {row.tid for row in before.stacks or ()}
        sleeps = [row for row in before.blocked if row.tid in python and is_sleep(row)]
        return frozenset(row.tid for row in sleeps if row.wakes_at is None or row.wakes_at <= self.at)

    def _paused_again(self, before: Look) -> frozenset[int]:
        """Python threads whose own code, at the previous look, waited with a short time limit, which is over."""
        own = {row.tid for row in before.stacks or () if called_by_user(row)}
        pauses = {row.tid: pause_s(row) for row in before.blocked if row.tid in own}
        return frozenset(tid for tid, seconds in pauses.items() if seconds is not None and seconds <= RETRY_S)

    def runs_since_dump(self, before: Look | None) -> int:
        """How often the main thread has run since its frames were last read."""
        return self.runs - before.runs if before else 0

    def follow(self, before: Look | None) -> None:
        """Keep what did not change since the previous look, as the same row objects."""
        if before is None:
            self.stacks = self.stacks or ()
            return
        self.known_calls = tuple(dict.fromkeys((*self.known_calls, *before.known_calls)))[:KNOWN_CALLS]
        if self.stacks is None:
            self.stacks, self.runs = before.stacks, before.runs
        self.remembered, self.children = before.remembered, before.children
        self.tasks, self.tasks_problem, self.loops_ran = before.tasks, before.tasks_problem, before.loops_ran
        self.handles = before.handles if before.handles == self.handles else self.handles
        python = {row.tid for row in self.stacks or ()}
        self.running = frozenset(python & _running(self.blocked) & _running(before.blocked))
        self.looping = self.running & _may_go_round(before)
        # A main thread counts even if it sleeps in a library that it called to wait for something.
        own = frozenset(row.tid for row in before.stacks or () if _is_own(row) or row.tid == self.pid)
        self.polling = self._slept_again(before) & own | self._paused_again(before)
        self.before_last = before.stacks or ()
        self.in_collective = self._still_in_collective()
        if _functions(self.stacks) == _functions(before.stacks):
            self.interval_s = min(LONGEST_INTERVAL_S, before.interval_s * GROWTH)

    def _still_in_collective(self) -> frozenset[int]:
        stack, before = (
            next((row for row in rows or () if row.tid == self.pid), None) for rows in (self.stacks, self.before_last)
        )
        if (
            stack is None
            or before is None
            or not any(map(_is_of_torch, stack.frames))
            or _lines(stack) != _lines(before)
        ):
            return frozenset()
        # Who waits for an operation of torch.distributed begun before is in torch's C code.
        return frozenset({self.pid} if wait_state(stack, None).kind in (Wait.COLLECTIVE, Wait.UNKNOWN) else ())

    # Which threads and processes to query

    def sleepers(self) -> dict[int, str]:
        """Threads with Python frames that wait in a futex of their process, with the object id of the futex word.

        The feeder thread of a queue, which most processes have, is left out: it only waits for items.
        """
        python = {row.tid: row.thread_name for row in self.stacks or ()}
        return {
            row.tid: name for row in self.blocked for name in row.waits_on
            if name.startswith("futex:") and row.tid in python and not python[row.tid].startswith(FEEDER)
        }  # fmt: skip

    def maps_unasked(self, semaphores: frozenset[str]) -> bool:
        """Whether the process maps one of these, and has not been searched for all of them since it last ran."""
        return not semaphores <= self.semaphores_asked and any(row.object in semaphores for row in self.handles)

    def entering(self) -> Iterator[str]:
        """The objects of the `with` blocks that its threads poll to enter."""
        return (row.object for row in self.locks if not row.holds and row.of_block)

    def remembers(self, children: frozenset[int]) -> bool:
        """Whether `remembered` still holds: same children, all known, and the exit status of all others known."""
        known = {row.child for row in self.remembered}
        ended = (row.returncode for row in self.remembered if row.child not in children)
        return bool(children) and children == self.children and children <= known and None not in ended

    def naps(self, known: Container[tuple[int, str, int]]) -> dict[int, tuple[tuple[str, int], ...]]:
        """File and line of the innermost calls of each thread that its own code has put to sleep, not for the first time, for
        long, or at a place that is known: a thread that computes for a moment is not found polling then.
        """
        asleep = {row.tid for row in self.blocked if is_sleep(row)}
        for_long = {row.tid for row in self.blocked if row.wakes_at is not None and row.wakes_at - self.at > RETRY_S}
        own = {row.tid: _places(row.frames) for row in self.stacks or () if row.tid in asleep and _is_own(row)}
        return {
            tid: places for tid, places in own.items()
            if tid in self.polling or tid in for_long or any((self.pid, *place) in known for place in places)
        }  # fmt: skip

    def asks(self) -> dict[int, tuple[tuple[str, int], ...]]:
        """The same of each thread whose own code waits with a time limit."""
        pauses = {
            row.tid: seconds for row in self.blocked if not is_sleep(row) and (seconds := pause_s(row)) is not None
        }
        rows = (row for row in self.stacks or () if pauses.get(row.tid, SOON_S) < SOON_S and called_by_user(row))
        return {row.tid: _places(frames) for row in rows if (frames := asking(row))}

    def note_loops(self, loops: Mapping[int, Loop]) -> None:
        """Note, by thread, what loops around naps test, and what loops around short waits compare with a limit."""
        if loops:
            asleep = {row.tid for row in self.blocked if is_sleep(row)}
            self.stacks = tuple(
                _with_loop(row, loops[row.tid], asleep=row.tid in asleep) if row.tid in loops else row
                for row in self.stacks or ()
            )

    def note_inside(self, found: Findings) -> None:
        """Note, by thread, the loop positions of running and polling threads; for some of these also the digests of
        their variables, which of their calls loop, and how much these threads read and wrote.
        """
        if found.turns or found.contents:
            seen = {*found.turns, *found.contents}
            self.stacks = tuple(_inside(row, found) if row.tid in seen else row for row in self.stacks or ())


def is_taken_semaphore(item: KernelObject) -> bool:
    """Whether this is a semaphore whose value is 0 or unknown: acquiring it has to wait."""
    return item.kind == "semaphore" and not item.value


def is_sleep(row: Blocked) -> bool:
    """Whether it only waits for time: nanosleep(2), or select(2) without descriptors (`time.sleep` of Python 3.10)."""
    return row.syscall in SLEEPS or (row.wakes_at is not None and row.syscall in POLLS)


def _calls(rows: tuple[Blocked, ...]) -> list[tuple[int, str | None, tuple[int, ...], str]]:
    return [(row.tid, row.syscall, row.args, row.state) for row in rows]


def _running(rows: tuple[Blocked, ...]) -> set[int]:
    return {row.tid for row in rows if row.syscall == "running" or row.state == "R"}


def _is_of_torch(frame: Frame) -> bool:
    """Only below such a frame is a collective: a cheap question first."""
    return "/torch/" in frame.file


def _lines(stack: Stack) -> list[tuple[str, int]]:
    return [(frame.file, frame.line) for frame in stack.frames]


def _functions(stacks: tuple[Stack, ...] | None) -> set[tuple[int, tuple[str, ...]]]:
    return {(stack.tid, tuple(frame.function for frame in stack.frames)) for stack in stacks or ()}


def _inside(stack: Stack, found: Findings) -> Stack:
    tid = stack.tid
    read, wrote = found.moved.get(tid, (None, None))
    return msgspec.structs.replace(
        stack, turns=found.turns.get(tid), contents=found.contents.get(tid), counts=found.counts.get(tid, ()),
        turning=found.turning.get(tid, ()), matching=found.matching.get(tid), read=read, wrote=wrote,
    )  # fmt: skip


MOST_PLACES = 4
"""Calls that are looked at for a loop: a function that sleeps may be called in one."""


def _places(frames: Sequence[Frame]) -> tuple[tuple[str, int], ...]:
    """File and line of the innermost call, and of those around it if all of them are the user's."""
    own = takewhile(lambda frame: is_user(frame.file), frames[:MOST_PLACES])
    return tuple((frame.file, frame.line) for frame in own) or ((frames[0].file, frames[0].line),)


def _with_loop(stack: Stack, loop: Loop, *, asleep: bool) -> Stack:
    """A sleep is explained by what its loop tests; a timed wait explains itself, except when its loop gives up."""
    if asleep:
        return msgspec.structs.replace(
            stack, tests=loop.tests, acts=loop.acts, only_sleeps=loop.only_sleeps, only_looks=loop.only_looks,
            limits=loop.limits, polls_for=loop.polls_for, keeps_books=loop.keeps_books, books=loop.books,
            tells=loop.tells,
        )  # fmt: skip
    return msgspec.structs.replace(
        stack, limits=loop.limits, other_work=loop.other_work, polls_for=loop.polls_for,
        keeps_books=loop.keeps_books, books=loop.books, tells=loop.tells,
    )  # fmt: skip


def _is_own(stack: Stack) -> bool:
    """Whether the program's own code made the blocking call."""
    return in_own_code(stack) or in_command_line(stack)


def _may_go_round(look: Look) -> set[int]:
    """Threads for which this look and the one before it showed no progress."""
    stacks = {row.tid: row for row in look.before_last}
    return {row.tid for row in look.stacks or () if row.tid in stacks and may_go_round(stacks[row.tid], row)}
