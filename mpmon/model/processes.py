"""Processes of the job, those that ended, and the control groups they are in."""

from __future__ import annotations

import msgspec

from mpmon.model.columns import Moment, Name, Pid, Row


class Process(Row, frozen=True, kw_only=True):
    """One process of the job: proc_pid_stat(5), proc_pid_status(5), proc_pid_cmdline(5), proc_pid_environ(5)."""

    pid: Pid
    start_time: Moment
    ppid: Pid
    host: str = ""
    """Its machine, in a snapshot joined from several (`mpmon.nodes`)."""
    state: str
    """One letter of proc_pid_stat(5): R running, S sleeping, D uninterruptible, T stopped, t traced, Z zombie."""
    name: str
    """The kernel's name of the process (comm), which torch sets for some of its processes."""
    threads: int
    cpu_s: float
    """User plus system time of the whole process, seconds."""
    rss_bytes: int
    pgid: Pid = 0
    sid: Pid = 0
    cmdline: tuple[str, ...] | None = None
    exe: str | None = None
    cwd: str | None = None
    """Its working directory, where file names in its stacks and messages begin; `None` when it cannot be read."""
    uid: int | None = None
    user: str | None = None
    """The name of `uid` in passwd(5); `None` for users of a directory service, which is never queried."""
    pss_bytes: int | None = None
    environment: dict[str, str] | None = None
    """Only names of `mpmon.probes.processes.traits.KEPT_ENVIRONMENT`; `None` when it cannot be read."""
    namespace_pid: Pid | None = None
    """The pid inside the innermost pid namespace, when it differs from `pid`."""
    tracer_pid: Pid | None = None
    """Pid of its tracer (a debugger), 0 for none."""
    read_bytes: int | None = None
    """Characters read by system calls so far (rchar of proc_pid_io(5)); grows with page cache and pipes too."""
    written_bytes: int | None = None
    """Characters written by system calls so far (wchar of proc_pid_io(5))."""
    reads: int | None = None
    """Number of its read calls so far (syscr of proc_pid_io(5)), with those that got nothing; `None` in old recordings."""
    child_faults: int | None = None
    """Page faults of the children that it has waited for so far (cminflt of proc_pid_stat(5)): each child has some, so this grows
    with each that has ended, however short it was there; `None` in old recordings.
    """
    exit_code: int | None = None
    """For a zombie, the status it ended with in the form of wait(2); `None` while alive or when hidden."""
    cgroup: Name | None = None
    """The path of its memory control group (proc_pid_cgroup(5)); `None` where v1 no longer reports it for an ended process."""
    cpus: int | None = None
    """How many CPUs it may run on: `Cpus_allowed` of proc_pid_status(5)."""
    forked: bool | None = None
    """It was made by fork and never ran another program: PF_FORKNOEXEC of linux/sched.h; `None` in old recordings."""
    catches_alarm: bool = False
    """It has a handler for SIGALRM (`SigCgt` of proc_pid_status(5)), which may run at any time."""
    catches_term: bool = False
    """The same for SIGTERM, which asks a process to end."""
    catches_call: bool = False
    """The same for SIGUSR1, SIGUSR2 or SIGHUP, by which other programs ask it to do something."""
    holds_off_term: bool = False
    """SIGTERM was sent to it and has not reached it, because it blocks that signal (`ShdPnd` and `SigBlk`)."""

    @property
    def key(self) -> tuple[int, float]:
        """Identity over time."""
        return (self.pid, self.start_time)

    @property
    def ended(self) -> bool:
        """A zombie, or about to vanish; false if only its first thread has ended."""
        return self.state in "ZX" and self.threads < 2

    @property
    def stopped(self) -> bool:
        """Stopped by a signal or held by a tracer."""
        return self.state in "Tt"


class KnownChild(Row, frozen=True, kw_only=True):
    """A child whose `Process` or `Popen` object still exists in its parent's program, perhaps long after the child ended."""

    pid: Pid
    """The parent."""
    child: Pid
    """The pid it had, which may have been reused."""
    returncode: int | None = None
    """As in `subprocess.Popen.returncode`: negative for a signal; `None` while the program has not asked for it."""
    name: str = ""
    """`multiprocessing.Process.name`."""


class Exit(Row, frozen=True, kw_only=True):
    """A process of the job that ended while mpmon watched."""

    pid: Pid
    start_time: Moment
    seen_at: Moment
    """When mpmon noticed, seconds since the epoch."""
    process: Process
    """The last row of it; its `exit_code` may be known even if it was never observed as a zombie."""


class Cgroup(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A control group with processes of the job, and its out-of-memory kills: cgroups(7), the kernel's admin-guide/cgroup-v2
    and cgroup-v1/memory.
    """

    path: Name
    """As in `Process.cgroup`."""
    oom_kills: int | None = None
    """Out-of-memory kills since the group was created: `oom_kill` of memory.events, in v1 of memory.oom_control."""
    oom_kill_seen_at: Moment | None = None
    """When mpmon last saw that number grow, seconds since the epoch; `None` if it did not while mpmon watched."""
    limit_bytes: int | None = None
    """The lowest memory.max (v1: memory.limit_in_bytes) of the group and of those around it."""
    peak_bytes: int | None = None
    """The most it has used: memory.peak (v1: memory.max_usage_in_bytes), when the number of kills was last read."""
    cpus: float | None = None
    """CPU time it may use, in CPUs: the lowest cpu.max of the group and of those around it; v2 only."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a field is `None`."""
