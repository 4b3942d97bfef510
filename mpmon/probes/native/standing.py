"""Where a thread stands: proc_pid_syscall(5) tells the stack pointer and the program counter of one that sleeps."""

from __future__ import annotations

from typing import NamedTuple

from mpmon.probes.files import Proc
from mpmon.probes.native.outcomes import REFUSED, RUNNING


class Standing(NamedTuple):
    """The two registers that the kernel tells."""

    stack_pointer: int
    program_counter: int


class NotStanding(Exception):
    """Nothing can be said of the thread: the `end` and the `why` of its row."""

    def __init__(self, end: str, why: str | None = None) -> None:
        super().__init__(end, why)
        self.end, self.why = end, why


def standing(proc: Proc, pid: int, tid: int) -> Standing:
    """
    Raises:
        NotStanding: it runs, or may not be asked.
    """
    try:
        fields = proc.text(pid, "task", tid, "syscall").split()
    except OSError as problem:
        raise NotStanding(REFUSED, f"its system call: {(problem.strerror or 'unreadable').lower()}") from None
    if fields[:1] == ["running"]:
        raise NotStanding(RUNNING)
    try:
        # The number of the call and its six arguments, or -1; then these registers.
        *call, pointer, counter = fields
        if len(call) in (1, 7):
            return Standing(int(pointer, 16), int(counter, 16))
    except ValueError:
        pass
    raise NotStanding(REFUSED, "its system call is told in another form")


def counters(proc: Proc, pid: int, tid: int) -> bytes:
    """What differs as soon as the thread has run, however shortly: `schedstat` of the kernel's sched-stats documentation.

    Raises:
        NotStanding: the kernel does not count, or the thread is gone.
    """
    try:
        return proc.read(pid, "task", tid, "schedstat")
    except ProcessLookupError:
        raise NotStanding(REFUSED, "it has ended") from None
    except OSError:
        raise NotStanding(REFUSED, "it has ended, or this kernel does not count when threads run") from None
