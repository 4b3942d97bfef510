"""Where a sleeping thread is: proc_pid_syscall(5) gives its stack pointer and its program counter."""

from __future__ import annotations

import os
from typing import NamedTuple

from mpmon.probes.files import Proc
from mpmon.probes.native.outcomes import REFUSED, RUNNING


class Standing(NamedTuple):
    """The two registers that the kernel reports."""

    stack_pointer: int
    program_counter: int


class NotStanding(Exception):
    """Nothing is known about the thread: the `end` and the `why` of its row."""

    def __init__(self, end: str, why: str | None = None) -> None:
        super().__init__(end, why)
        self.end, self.why = end, why


def standing(proc: Proc, pid: int, tid: int) -> Standing:
    """
    Raises:
        NotStanding: it runs, or may not be read.
    """
    try:
        fields = proc.text(pid, "task", tid, "syscall").split()
    except OSError as problem:
        raise NotStanding(REFUSED, f"its system call: {(problem.strerror or 'unreadable').lower()}") from None
    if fields[:1] == ["running"]:
        raise NotStanding(RUNNING)
    try:
        # The number of the system call and its six arguments, or -1; then these registers.
        *call, pointer, counter = fields
        if len(call) in (1, 7):
            return Standing(int(pointer, 16), int(counter, 16))
    except ValueError:
        pass
    raise NotStanding(REFUSED, "its system call is in an unknown format")


class Counters:
    """Counters that change as soon as a thread has run, however briefly: `schedstat` (the kernel's sched-stats documentation);
    for the length of a `with` block.
    """

    LIMIT = 256
    """Bytes: three numbers."""

    def __init__(self, proc: Proc, pid: int, tid: int) -> None:
        """
        Raises:
            NotStanding: the kernel does not count, or the thread is gone.
        """
        try:
            self._descriptor = os.open(proc.path(pid, "task", tid, "schedstat"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise NotStanding(REFUSED, _UNCOUNTED) from None

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def now(self) -> bytes:
        """Their current values.

        Raises:
            NotStanding: as above.
        """
        try:
            return os.pread(self._descriptor, self.LIMIT, 0)
        except ProcessLookupError:
            raise NotStanding(REFUSED, "it has ended") from None
        except OSError:
            raise NotStanding(REFUSED, _UNCOUNTED) from None


_UNCOUNTED = "it has ended, or this kernel does not count when threads run"
