"""Threads: what the scheduler counts, and what the kernel says they are blocked in."""

from __future__ import annotations

from mpmon.model.columns import AnyMoment, CallPlace, Moment, Name, Pid, Row


class Thread(Row, frozen=True, kw_only=True):
    """Scheduler counters of one thread: proc_pid_task(5), `schedstat` of the kernel's sched-stats documentation."""

    pid: Pid
    tid: Pid
    name: str
    run_ns: int
    """Time on a CPU, nanoseconds."""
    slices: int
    """How often it was put on a CPU. If unchanged between two samples, it did not run in between."""
    wait_ns: int = 0
    """Time it was runnable but waiting for a CPU, nanoseconds."""


NAMELESS_CALLS = frozenset({None, "close", "execve", "exit", "exit_group", "munmap"})
"""System calls that may wait for a file system but whose arguments name no file; `None` is a page fault."""


class Blocked(Row, frozen=True, kw_only=True):
    """What the kernel says one thread is blocked in: proc_pid_syscall(5), proc_pid_wchan(5), and what the arguments name."""

    pid: Pid
    tid: Pid
    state: str
    syscall: str | None = None
    """Name of the system call, "running" for a thread on a CPU, `None` when it cannot be read."""
    args: tuple[int, ...] = ()
    """The six arguments as the registers hold them, then stack pointer and program counter."""
    wchan: str | None = None
    ran_at: Moment | None = None
    """When the thread last ran, from `se.exec_start`, seconds since the epoch; `None` on kernels without it."""
    timeout_s: float | None = None
    """How long the call waits at most, from its start; `None` for no limit or unknown."""
    wakes_at: AnyMoment | None = None
    """For a sleep or a wait with a deadline: when it ends by itself, seconds since the epoch."""
    waits_on: tuple[Name, ...] = ()
    """Ids of the `KernelObject`s or `process:PID` it waits for; any one of them may wake it."""
    once: tuple[Name, ...] = ()
    """Those of `waits_on` that wake it once when something comes to be read, and not as long as it is there: EPOLLET of
    epoll_ctl(2).
    """
    writes: bool = False
    """It waits for room (a write), not for data."""
    signals: tuple[int, ...] = ()
    """The signals that it waits for in sigwait(3): the set that the call points to."""
    joins: Pid | None = None
    """The thread that it joins in C: pthread_join(3) expects the thread's number in the futex."""

    @property
    def has_limit(self) -> bool:
        """The call ends by itself, at a time limit or a deadline."""
        return self.timeout_s is not None or self.wakes_at is not None


class Spot(Row, frozen=True, kw_only=True):
    """In which system call the main thread of a rank was found since the round before, by proc_pid_syscall(5) alone."""

    pid: Pid
    place: CallPlace
    slices: int
    """Its count of CPU slices by then: if equal to that of the previous round, it has not run since."""
