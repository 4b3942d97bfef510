"""What the last thorough look at one process found, and what may be kept of it at the next one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mpmon.diagnosis.frames import asking, called_by_user
from mpmon.diagnosis.progress.loop_progress import may_go_round
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.thresholds import RETRY_S
from mpmon.diagnosis.waits import in_command_line, in_own_code
from mpmon.model import (
    Blocked,
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
    from mpmon.probes.kernel import KernelLook
    from mpmon.probes.kernel.holdings import ServedFile
    from mpmon.probes.loops import Loop

FIRST_INTERVAL_S, LONGEST_INTERVAL_S = 1.0, 60.0
"""Between two thorough looks at a process that runs: at first, at most."""

GROWTH = 1.7
"""Of the interval after each look that finds the same functions."""

KNOWN_CALLS = 8
"""System calls of a main thread that are remembered: a worker goes back and forth between a few."""

FEEDER = "QueueFeederThread"
"""How multiprocessing names the threads that send what was put into a queue (multiprocessing/queues.py)."""


class Look:
    """The rows of one process."""

    def __init__(self, pid: int, at: float, kernel: KernelLook, *, runs: int, main_call: bytes) -> None:
        self.pid = pid
        self.at = at
        self.runs = runs
        """How often the main thread had run when its frames were read."""
        self.interval_s = FIRST_INTERVAL_S
        self.known_calls = (main_call,)
        """System calls the main thread was seen in lately, as the kernel prints them, the latest first."""
        self.unknowns: tuple[Unknown, ...] = (kernel.unknowns[pid],) if pid in kernel.unknowns else ()
        # From the kernel.
        self.blocked: tuple[Blocked, ...] = kernel.blocked.get(pid, ())
        self.handles: tuple[Handle, ...] = kernel.handles.get(pid, ())
        self.served: tuple[ServedFile, ...] = kernel.served.get(pid, ())
        """Of file systems that somebody else serves: one file of each that it uses."""
        names = {*kernel.locked.get(pid, ()), *(name for row in self.blocked for name in row.waits_on)}
        self.objects: tuple[KernelObject, ...] = tuple(kernel.objects[name] for name in sorted(names))
        self.may_be_outside = frozenset(
            item.id for item in self.objects if item.kind == "pipe" or is_taken_semaphore(item)
        )
        """Of what its threads wait on: what processes outside of the job may have as well."""
        # From py-spy.
        self.stacks: tuple[Stack, ...] | None = None
        """`None` while they are those of the look before."""
        # From memory: see `holders`.
        self.semaphores: tuple[SemaphoreUse, ...] = ()
        self.semaphores_asked: frozenset[str] = frozenset()
        self.semaphores_problem: Unknown | None = None
        self.locks: tuple[LockUse, ...] = ()
        self.locks_problem: Unknown | None = None
        self.awaited: tuple[JoinTarget, ...] = ()
        self.remembered: tuple[KnownChild, ...] = ()
        self.children: frozenset[int] = frozenset()
        """Those it had when it was asked whom it remembers."""
        self.running: frozenset[int] = frozenset()
        """Threads found running now and at the look before."""
        self.looping: frozenset[int] = frozenset()
        """Of those the ones of which the two looks before showed nothing that gets on."""
        self.polling: frozenset[int] = frozenset()
        """Main threads that slept, and others whose own code did, or waited with a short time limit, at the look before, and
        have gone on since.
        """
        self.tasks: tuple[Task, ...] = ()
        """Of its event loops: see `loops`."""
        self.tasks_problem: Unknown | None = None
        self.loops_ran: dict[int, float | None] = {}
        """When the threads of these loops had last run by then."""
        self.before_last: tuple[Stack, ...] = ()
        """Stacks of the look before."""

    # What the look before is good for

    def same_calls(self, before: Look | None) -> bool:
        """Every thread is back in the very system call of the look before: same arguments, same stack pointer.

        One that sleeps again is not: a loop sleeps in the same call at each turn, and what it did in between is not known.
        """
        if before is None or not before.stacks or not self.blocked or self._slept_again(before):
            return False
        return _calls(self.blocked) == _calls(before.blocked) and all(
            row.syscall not in (None, "running") for row in self.blocked
        )

    def _slept_again(self, before: Look) -> frozenset[int]:
        """Python threads of which the sleep in which the look before found them is over, as far as is known."""
        python = {row.tid for row in before.stacks or ()}
        sleeps = [row for row in before.blocked if row.tid in python and is_sleep(row)]
        return frozenset(row.tid for row in sleeps if row.wakes_at is None or row.wakes_at <= self.at)

    def _paused_again(self, before: Look) -> frozenset[int]:
        """Python threads whose own code asked for something with a short time limit, which is over."""
        own = {row.tid for row in before.stacks or () if called_by_user(row)}
        pauses = {row.tid: pause_s(row) for row in before.blocked if row.tid in own}
        return frozenset(tid for tid, seconds in pauses.items() if seconds is not None and seconds <= RETRY_S)

    def runs_since_dump(self, before: Look | None) -> int:
        """How often the main thread has run since its frames were read."""
        return self.runs - before.runs if before else 0

    def follow(self, before: Look | None) -> None:
        """Keep what did not change since the look before, as the very same rows."""
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
        # A main thread may also sleep in a library that it asks to wait for something.
        own = frozenset(row.tid for row in before.stacks or () if _is_own(row) or row.tid == self.pid)
        self.polling = self._slept_again(before) & own | self._paused_again(before)
        self.before_last = before.stacks or ()
        if _functions(self.stacks) == _functions(before.stacks):
            self.interval_s = min(LONGEST_INTERVAL_S, before.interval_s * GROWTH)

    # Whom to ask what

    def sleepers(self) -> dict[int, str]:
        """Threads with Python frames that wait in a futex of their process, with the id of its word.

        A queue's feeder thread waits for items, and most processes have one: nothing is to be learned from it.
        """
        python = {row.tid: row.thread_name for row in self.stacks or ()}
        return {
            row.tid: name for row in self.blocked for name in row.waits_on
            if name.startswith("futex:") and row.tid in python and not python[row.tid].startswith(FEEDER)
        }  # fmt: skip

    def maps_unasked(self, semaphores: frozenset[str]) -> bool:
        """It maps one of these and was not asked for all of them since it last ran."""
        return not semaphores <= self.semaphores_asked and any(row.object in semaphores for row in self.handles)

    def remembers(self, children: frozenset[int]) -> bool:
        """It has the children that it had when it was asked for them, knew all of them, and how all others have ended."""
        known = {row.child for row in self.remembered}
        ended = (row.returncode for row in self.remembered if row.child not in children)
        return bool(children) and children == self.children and children <= known and None not in ended

    def naps(self) -> dict[int, tuple[str, int]]:
        """File and line of the threads that their own code has put to sleep, where that is not the first time."""
        asleep = {row.tid for row in self.blocked if is_sleep(row)} & self.polling
        rows = ((row.tid, row.frames[0]) for row in self.stacks or () if row.tid in asleep and _is_own(row))
        return {tid: (frame.file, frame.line) for tid, frame in rows}

    def asks(self) -> dict[int, tuple[str, int]]:
        """File and line of the threads whose own code waits with a short time limit, where that is not the first time."""
        asleep = {row.tid for row in self.blocked if is_sleep(row)}
        rows = ((row.tid, asking(row)) for row in self.stacks or () if row.tid in self.polling - asleep)
        return {tid: (frames[0].file, frames[0].line) for tid, frames in rows if frames}

    def note_loops(self, loops: Mapping[int, Loop]) -> None:
        """What the loops of its naps test, and what those of its short waits compare with a limit, by thread."""
        if loops:
            asleep = {row.tid for row in self.blocked if is_sleep(row)}
            self.stacks = tuple(
                msgspec.structs.replace(
                    row, **{"tests": loop.tests} if row.tid in asleep else {"limits": loop.limits}
                )
                if (loop := loops.get(row.tid)) else row
                for row in self.stacks or ()
            )  # fmt: skip

    def note_inside(
        self,
        turns: Mapping[int, tuple[tuple[int, ...], ...]],
        contents: Mapping[int, tuple[tuple[int, int, int], ...]],
        turning: Mapping[int, tuple[int, ...]],
        moved: Mapping[int, tuple[int, int]],
    ) -> None:
        """By thread: how far the loops of its running and polling threads are, what the variables of some lead to, which of
        their calls turn, and how much these read and wrote.
        """
        if turns or contents:
            nothing = (None, None)
            self.stacks = tuple(
                msgspec.structs.replace(
                    row, turns=turns.get(row.tid), contents=contents.get(row.tid), turning=turning.get(row.tid, ()),
                    **dict(zip(("read", "wrote"), moved.get(row.tid, nothing), strict=True)),
                )
                if row.tid in turns or row.tid in contents else row
                for row in self.stacks or ()
            )  # fmt: skip


def is_taken_semaphore(item: KernelObject) -> bool:
    """A semaphore whose value is 0, or not known: who wants it has to wait."""
    return item.kind == "semaphore" and not item.value


def is_sleep(row: Blocked) -> bool:
    """It waits for the time alone: nanosleep(2), or a select(2) without descriptors, as `time.sleep` of Python 3.10 is."""
    return row.syscall in SLEEPS or (row.wakes_at is not None and row.syscall in POLLS)


def _calls(rows: tuple[Blocked, ...]) -> list[tuple[int, str | None, tuple[int, ...], str]]:
    return [(row.tid, row.syscall, row.args, row.state) for row in rows]


def _running(rows: tuple[Blocked, ...]) -> set[int]:
    return {row.tid for row in rows if row.syscall == "running" or row.state == "R"}


def _functions(stacks: tuple[Stack, ...] | None) -> set[tuple[int, tuple[str, ...]]]:
    return {(stack.tid, tuple(frame.function for frame in stack.frames)) for stack in stacks or ()}


def _is_own(stack: Stack) -> bool:
    """The program's own code made the blocking call."""
    return in_own_code(stack) or in_command_line(stack)


def _may_go_round(look: Look) -> set[int]:
    """Threads of which this look and the one before it showed nothing that gets on."""
    stacks = {row.tid: row for row in look.before_last}
    return {row.tid for row in look.stacks or () if row.tid in stacks and may_go_round(stacks[row.tid], row)}
