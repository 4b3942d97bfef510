"""Every fact mpmon can know, on one page.

A `Snapshot` is a small relational database of one moment: frozen rows in flat tables, joined by pid.
Within one snapshot a pid names one process; over time a process is (pid, start time), because pids are reused.
Rows carry what the machine said and no opinion; opinions live in `mpmon.diagnosis`.

What is not known is `None`, and why it is not known is a row of `Snapshot.unknowns` or of `Snapshot.probes`.
Units: seconds (float) for durations and for moments since the epoch, bytes for sizes, nanoseconds where the name says so.

Rows that did not change between two rounds are the same objects in both snapshots, so that comparing them costs an `is`
and a recording can leave them out.
"""

from __future__ import annotations

import re
import zlib
from typing import Annotated

import msgspec

NOT_PYTHON = "not a Python process"
"""The `Unknown.reason` of stacks that do not exist."""


Moment = Annotated[float, msgspec.Meta(ge=0.0, lt=253_370_764_800.0, extra={"of": "a clock"})]
"""Seconds since the epoch, up to the year 9999, where calendars end."""


AnyMoment = Annotated[float, msgspec.Meta(extra={"of": "a clock"})]
"""Seconds since the epoch, chosen by the job: not necessarily within the calendar."""


Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
"""A quantity reported by a machine."""

Pid = Annotated[int, msgspec.Meta(extra={"of": "a pid namespace"})]
"""The number of a process or thread."""


Name = Annotated[str, msgspec.Meta(extra={"of": "a kernel"})]
"""A name that is specific to a machine: a kernel object, a control group, a device."""


DeviceNumber = Annotated[int, msgspec.Meta(extra={"of": "a kernel"})]
"""The same, as a number."""


Turn = Annotated[tuple[int, ...], msgspec.Meta(min_length=2)]
"""The position of a loop's iterator: see `Stack.turns`."""


CallPlace = tuple[str, int, int]
"""Where a thread waits: system call, stack pointer, program counter; "running" and two zeros for one on a CPU."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all rows: frozen, compared by value, unknown fields of later versions ignored when read.

    Rows never form cycles, so the garbage collector need not look at the thousands of them.
    """


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


class KernelObject(Row, frozen=True, kw_only=True):
    """Something processes share or wait on, by its identity in the kernel."""

    id: Name
    """`pipe:INODE`, `socket:INODE`, `semaphore:DEV:INODE`, `futex:PID:ADDRESS`, `file:DEV:INODE`, `pty:NUMBER`,
    `eventfd:ID` (of fdinfo), `mount:DEV`.
    """
    kind: str
    """pipe, fifo, socket, semaphore, mutex, futex, file, file lock, mount (a file system that somebody else serves), terminal,
    pty (the master side of one), eventfd, epoll, inotify, pidfd, timerfd, null, other.
    """
    path: str | None = None
    """File name, or for a socket its addresses."""
    fill: int | None = None
    """Unread bytes; of a listening socket the connections not accepted yet."""
    capacity: int | None = None
    """Bytes a pipe can hold."""
    value: int | None = None
    """Value of a semaphore; the word of a mutex between processes."""
    waiters: int | None = None
    """Threads waiting in a semaphore."""
    owner_tid: Pid | None = None
    """Owner word of a native mutex, also of one between processes: the thread that took it, dead or alive."""
    peer: Name | None = None
    """Id of the socket at the other end, when it is on this machine; of a pty's master side the terminal."""
    listens: bool = False
    """A listening socket."""
    listener: Name | None = None
    """For a connection not accepted yet: id of the listening socket in whose queue it is."""
    sent_at: Moment | None = None
    """When the last byte went over a TCP connection, or when it was made, seconds since the epoch."""
    received_at: Moment | None = None
    """When the last byte came over a TCP connection, or when it was made, seconds since the epoch."""
    sent_bytes: int | None = None
    """Total bytes sent over a TCP connection from this end; `None` before Linux 4.19."""
    acknowledged_at: Moment | None = None
    """When the last acknowledgement came over a TCP connection, or when it was made, seconds since the epoch."""
    unacknowledged_bytes: int | None = None
    """Bytes written to a TCP connection, sent or still to be sent, that the other end has not acknowledged."""
    resends: int | None = None
    """How often in a row the kernel has retransmitted the same bytes of a TCP connection, each time after a longer wait,
    because no acknowledgement came; 0 if it is not waiting for one, for example when the other end has no room (tcp_diag of
    net/ipv4).
    """
    holders: tuple[Pid, ...] = ()
    """Pids that hold a lock on the file: whose open files have it, by `lock:` of proc_pid_fdinfo(5); else by proc_locks(5),
    which names the one who took it, also when only a child that inherited the open file still has it."""
    sharers: tuple[Pid, ...] = ()
    """Those of them that share a read lock; empty in old recordings."""
    takers: tuple[Pid, ...] = ()
    """Processes that took the lock of a file and have closed that open file: `holders` inherited it through a fork. Empty in
    old recordings.
    """

    def kept_by(self, pid: Pid) -> tuple[Pid, ...]:
        """Of a file, those who keep its lock from a process: whoever has one; from a process that has a lock too, say on another
        range of the file as SQLite does, only who has his alone.
        """
        others = tuple(holder for holder in dict.fromkeys(self.holders) if holder != pid)
        return tuple(holder for holder in others if holder not in self.sharers) if pid in self.holders else others


class Handle(Row, frozen=True, kw_only=True):
    """One process has one object open or mapped, so it could wake threads that wait on it."""

    pid: Pid
    object: Name
    fd: int | None = None
    """Descriptor, `None` for a mapping."""
    reads: bool = True
    writes: bool = True
    path: str | None = None
    """Name of the file it was opened by; `None` for an object without a name, such as a pipe."""


class SemaphoreUse(Row, frozen=True, kw_only=True):
    """One process's part in a multiprocessing lock, semaphore or queue: `SemLockObject` of CPython's
    Modules/_multiprocessing/semaphore.c, found in the process's memory.
    """

    pid: Pid
    object: Name
    """`semaphore:DEV:INODE:OFFSET`."""
    count: int
    """Acquired minus released by this process: 1 for the holder of a lock; for the bound of a queue, puts minus gets."""
    max_value: int
    """1 for a lock; the largest int for a plain semaphore."""
    recursive: bool = False
    thread_ident: int | None = None
    """`threading.get_ident()` of the thread that acquired last."""


BLOCK, PERMITS = "block:", "permits:"
"""Begin the ids of the objects of `with` blocks, and of semaphores of `threading`."""


class LockUse(Row, frozen=True, kw_only=True):
    """One thread holds, or waits for, a lock of its own process (`threading.Lock`, `RLock`, the lock of a `Condition`), as
    CPython's frames and locks say; or one that programs make themselves, of a folder, a file or a key of a database, and for
    which others poll: `mpmon.probes.interpreter`.
    """

    pid: Pid
    tid: Pid
    object: Name
    """`futex:PID:ADDRESS`, the word its waiters sleep on; from Python 3.14 on `lock:PID:ADDRESS`. `block:DIGEST` for a lock of a
    program's own making, with a digest of its class and name; `permits:PID:ADDRESS` for a semaphore.
    """
    kind: str
    """`Lock`, `RLock`, or `Condition` for the lock inside of one; the class, or the function that makes it, of another one."""
    holds: bool
    """False if it waits for it."""
    function: str | None = None
    """The function whose `with` block holds it or waits for it; `None` where the lock itself names its owner."""
    depth: int | None = None
    """The number of frames outside of that one."""
    owner_missing: bool = False
    """It waits, and the lock names an owner that is no thread of this process: it was locked before a fork, or by a thread
    that has ended.
    """
    exact: bool = True
    """False when the thread ran while it was read, or may have given the lock back inside of its `with` block."""
    asleep: bool = False
    """It sleeps on its way into the block, instead of asking again and again: what wakes it need not be the end of a block."""
    alone: bool = False
    """It waits for a permit of a semaphore that each call takes and gives back itself; and as far as is seen, no other thread is
    in a call that gives any back, but those that hold one.
    """

    @property
    def of_block(self) -> bool:
        """It is a lock of a program's own making."""
        return self.object.startswith(BLOCK)

    @property
    def of_permits(self) -> bool:
        """It is a semaphore."""
        return self.object.startswith(PERMITS)


class JoinTarget(Row, frozen=True, kw_only=True):
    """What a waiting call refers to: the joined thread, the future whose result is requested, or possibly a torch `Work`; else
    that the thread is in a task of an executor in whose queue others wait.
    """

    pid: Pid
    tid: Pid
    kind: str
    """`thread`, `future`, or `work`: the code calls a method of the name by which one waits for a collective. `task`: all threads
    of the executor are in tasks, and others wait in its queue.
    """
    by_tid: Pid | None = None
    """The thread that has to end, or that runs the future's task, or in whose event loop it has to be completed; `None` where no
    thread of this process does.
    """
    queued_for: tuple[Pid, ...] = ()
    """Of a future whose task still waits in the queue of an executor, or that gets its result from such a one through
    coroutines: the threads of the executor, which alone can take it. Of a `task` as well.
    """
    members: tuple[int, ...] = ()
    """Of `work` by a function of torch's own: the ranks of its process group, by their numbers in the job; empty where that
    is not known.
    """
    group: str = ""
    """The name of that group, which all its ranks know it by; empty where that is not known."""


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


class Frame(Row, frozen=True, kw_only=True):
    """One Python call. `function` is qualified from Python 3.11 on (`Thread.run`), bare before (`run`)."""

    function: str
    file: str
    line: int
    arguments_digest: int | None = None
    """Differs between calls with different argument objects; the values themselves are never kept."""
    locals_digest: int | None = None
    """Changes when a local variable that is not an argument is bound to another object."""
    plain: dict[str, int] | None = None
    """In the user's code, a digest of each local that is a plain number, string or `None`, by name: where ranks are at the
    same line, it shows which one has a different value, without keeping the value.
    """
    trend: dict[str, int] | None = None
    """Of the plain locals that are numbers and not what they were when this call was read before: 1 for a larger one, -1 for
    a smaller one."""
    known: dict[str, str] | None = None
    """The few locals of library frames mpmon may keep, e.g. `worker_id` of torch's worker loop."""
    is_entry: bool = False
    """The interpreter's C loop was entered with this frame; false for all frames if unknown."""
    loops: tuple[str, ...] | None = None
    """Of some calls of a rank in a collective that others are not in: the loops around the line in its function, outermost first,
    each with the line at which it begins, as the source says: `for 12`, `while 30`. `None`: it is not known.
    """
    tested: tuple[str, ...] = ()
    """With `loops`, in the user's code: names in the tests of the `if` statements on the way to it; `not rank` where the test
    fails, or where the variable is not the value it is compared with.
    """
    carried: tuple[str, ...] | None = None
    """Of a call of the user's in a task of a pool or loader that computes: the local variables that the loops around its line
    carry from one turn to the next, as the source says; `ONLY_COUNTED` before an attribute that they count and read nowhere;
    `UNSEEN` if something else may be carried; `BY_CLOCK` if one reads a clock. `None`: it is in no loop, or nobody asked.
    """
    ends: tuple[int, ...] = ()
    """In the user's code, the descriptors of connections and sockets that its variables are bound to, also in lists."""


UNSEEN, ONLY_COUNTED = "?", "~"
"""Of `Frame.carried`."""

SOURCE_NOT_KNOWN = (UNSEEN,)
"""Of `Frame.carried`: the source cannot be read, or has changed since the process began."""

PY_SPY, MPMON, BOTH = "py-spy", "mpmon", "mpmon and py-spy"
"""Readers of stacks."""


def variable_number(name: str) -> int:
    """What `Stack.contents` knows a local variable of a function by; other variables have smaller numbers."""
    return zlib.crc32(name.encode()) | 1 << 32


CLOCK = -2
"""In `Stack.contents`, instead of the number of a variable: its call reads a clock, so its loop may end at a certain time."""


class Stack(Row, frozen=True, kw_only=True):
    """Python frames of one thread, innermost first."""

    pid: Pid
    tid: Pid
    thread_name: str
    taken_at: Moment
    ident: int | None = None
    """`threading.get_ident()`, the pthread id."""
    frames: tuple[Frame, ...]
    active: bool = False
    """It was running when read."""
    owns_gil: bool = False
    reader: str = PY_SPY
    """`BOTH` if two readers found the same calls and lines."""
    exact: bool = True
    """False when the thread ran while it was read, so that frames of different moments may be mixed."""
    place: CallPlace | None = None
    """For a main thread that did not run while its frames were read: where it was waiting."""
    turns: tuple[Turn, ...] | None = None
    """Of one that was found running twice, or twice in one collective: address and position of the iterators of its `for`
    loops, and the place of their frame, counted from the outermost. The position grows from turn to turn where it is known, as
    for lists, ranges and dictionaries; else it is -1. `None`: nobody asked.
    """
    contents: tuple[tuple[int, int, int], ...] | None = None
    """Of one that may go round in circles: place of a call, counted from the outermost, number of one of its variables (see
    `variable_number`), and a digest of what the variable leads to: numbers in attributes, how much containers hold, the
    memory of tensors on the CPU. The digest is -1 where that cannot be seen; the number is `CLOCK` of a call that looks at a
    clock. `None`: nobody asked.
    """
    tests: tuple[str, ...] | None = None
    """Of one that its own code has put to sleep in a loop: what this tests before it is left, as its source says: names of
    methods, of attributes with a dot before them, `?` for what is neither. Empty: it is never left. `None`: it is not known.
    """
    counts: tuple[tuple[int, int, int, dict[str, int]], ...] = ()
    """With `contents`, for its variables that lead to whole numbers: place and number as there, a digest of all but these
    numbers, and their sums by the attribute that leads to them, in which each has its own weight. Attributes are written with
    a dot before them; numbers that no attribute leads to, or too many, have no name.
    """
    acts: bool = False
    """With `tests`: each turn of its loop calls something besides what sleeps, counts, logs or asks others of the job, so that it
    may bring something in from outside.
    """
    only_sleeps: bool = False
    """With `tests`: its loop is never left, and does nothing but sleep, count and log, so it does nothing for others."""
    only_looks: bool = False
    """With `tests`: its loop ends once something is there, and until then does nothing but look for it, sleep, count and log."""
    turning: tuple[int, ...] = ()
    """With `contents`: places of calls, counted from the outermost, that went back to an instruction further up while they
    were read: loops whose turns take microseconds.
    """
    matching: int | None = None
    """With `contents`: characters of the text that its innermost call matches with a regular expression, if it does."""
    wrote: int | None = None
    """With `contents`: bytes that the thread has handed to write(2) and the like since it began."""
    read: int | None = None
    """With `contents`: bytes that the thread has got from read(2) and the like since it began, among them all that comes
    through queues and connections of multiprocessing; what recv(2) gets is not among them.
    """
    limits: tuple[str, ...] | None = None
    """Of one whose own code sleeps, or waits with a short time limit, in a loop: the variables that this loop compares with a
    limit, attributes with a dot before them, a variable that is compared with a whole number followed by the number (`tries 5`),
    and `BY_CLOCK` if it reads a clock other than to log, as its source says. `None`: it is not known.
    """


BY_CLOCK = "clock()"
"""Of `Stack.limits`."""

CLOCKS = frozenset({
    "monotonic", "monotonic_ns", "now", "perf_counter", "perf_counter_ns", "process_time", "time", "time_ns", "utcnow",
})  # fmt: skip
"""Functions that read a clock: of time and datetime."""

SENT_CODE = "<dynamic-code>"
"""File of code that cloudpickle sent from another process by value, where nothing tells in which file it was written."""

USERS_WITHOUT_FILE = re.compile(rf"<(stdin|console|python-input-\d+|ipython-input-[^>]*)>|{re.escape(SENT_CODE)}")
"""Files of the user's code that are none: typed into a Python (Modules/main.c, Lib/code.py, Lib/_pyrepl/simple_interact.py) or
IPython (IPython/core/compilerop.py), or sent.  Any other name in angle brackets is the interpreter's, or of generated code.
"""


SENDS_TO_OTHERS = "sends"
"""Of `Task.reaches`; in recordings made before, nothing says so."""


class Task(Row, frozen=True, kw_only=True):
    """A task of an event loop of asyncio that is not done: in which coroutines it is and what it awaits, as the interpreter says
    (`mpmon.probes.interpreter.tasks`).
    """

    pid: Pid
    tid: Pid
    """The thread that runs its loop."""
    object: Name
    """`task:PID:ADDRESS`."""
    name: str = ""
    frames: tuple[Frame, ...] = ()
    """Its coroutines, innermost first; of one that runs the outermost ones, for the others lie in the stack of the thread."""
    waits: str | None = None
    """`sleep`, `lock`, `semaphore`, `condition`, `event`, `barrier`, `queue get`, `queue put`, `queue join`, `process` (its
    end), `stream` (what comes over a connection or a pipe, or room there), `executor` (the end of the threads of the loop's
    executor), `thread` (the result of a thread of its process), `requests` (of a server's clients), `tasks` (the end of all of
    them), `any task` (that of one), `future` (one of which nothing else is known), `ready` (it goes on at the loop's next
    turn), `running`; `None` where that cannot be read.
    """
    waits_on: Name | None = None
    """`asyncio:PID:ADDRESS` of the lock, queue, event or future."""
    tasks: tuple[Name, ...] = ()
    """The unfinished tasks that it waits for: those of `gather`, `wait`, `wait_for` or a `TaskGroup` that are not done."""
    child: Pid | None = None
    """Of `process`: the child."""
    timed: bool = False
    """Its wait has a time limit."""
    holds: tuple[Name, ...] = ()
    """The locks and semaphores of asyncio of which it is in an `async with` block."""
    reaches: tuple[Name, ...] | None = None
    """Of one that sleeps: what other tasks await of all that its variables and the functions it knows lead to, which of these
    tasks, and `SENDS_TO_OTHERS` where there is a connection or an open file among it; `None` where that is not known.
    """
    callbacks: int | None = None
    """Handlers of signals of its loop, and timers that are neither a sleep nor a time limit: what they call may do anything."""
    handlers: int = 0
    """Of these, the handlers of signals; -1 where the loop does not keep them in Python objects, as uvloop's."""


class NativeFrame(Row, frozen=True, kw_only=True):
    """One call of a function of C or C++."""

    library: str | None = None
    """The mapped file; `None` for code without a file."""
    build_id: str | None = None
    offset: int
    """Its offset in the file (for addr2line(1)); the address itself if there is no file."""
    function: str | None = None
    """The symbol; `None` if the file has none for it."""
    name: str | None = None
    """The readable name: demangled, without parameters and template arguments."""
    inside: int | None = None
    """Offset from the beginning of the function in bytes; `None` if unknown."""
    how: str
    """How it was found: `registers` (the innermost one: the kernel tells it), `frame information` (told, nothing was assumed),
    `prologue` (derived: the code of the frame below tells how deep that is), `frame pointer`, or `search` (the nearest word
    on the stack that is a return address of a call that may have led there), `sample` (the innermost one of a thread that ran:
    perf told where it stood in one moment).
    """
    proof: int | None = None
    """Of one that was not told, what proves it: 3, the call before its return address names the function below; 2, it calls
    one that jumps to the function below; 1, it is a call through a register or memory.
    """

    @property
    def is_told(self) -> bool:
        """It was reported, or derived and confirmed by the call: not a guess."""
        return self.is_certain or self.how == "sample"

    @property
    def is_certain(self) -> bool:
        """A diagnosis may use it: it is neither a guess nor a momentary sample."""
        return self.how in ("registers", "frame information", "prologue")


class NativeStack(Row, frozen=True, kw_only=True):
    """C and C++ frames of one thread, innermost first, read while it slept, or sampled at one moment while it ran."""

    pid: Pid
    tid: Pid
    taken_at: Moment
    frames: tuple[NativeFrame, ...] = ()
    end: str
    """Why there are no more: `start` (all are there), `lost` (from there on nothing is known), `bounded` (more frames, or more
    work, than is allowed), `running` (it was on a CPU), `moved` (it ran while it was read, twice), `refused` (it may not be
    read, or is of a kind that is not understood).
    """
    why: str | None = None
    """Details of that, as the rest of a sentence."""
    seconds: float = 0.0
    """Time mpmon spent on it."""

    @property
    def is_complete(self) -> bool:
        """All frames are there."""
        return self.end == "start"

    @property
    def is_sample(self) -> bool:
        """It is one moment of a running thread: it shows what the thread does, not what it waits for."""
        return bool(self.frames) and self.frames[0].how == "sample"


class Exit(Row, frozen=True, kw_only=True):
    """A process of the job that ended while mpmon watched."""

    pid: Pid
    start_time: Moment
    seen_at: Moment
    """When mpmon noticed, seconds since the epoch."""
    process: Process
    """The last row of it; its `exit_code` may be known even if it was never observed as a zombie."""


class Collective(Row, frozen=True, kw_only=True):
    """One collective that a rank enqueued in a process group, as recorded by its Flight Recorder."""

    rank: int | None = None
    pid: Pid | None = None
    """Where the kernel tells which process answered."""
    backend: str
    """`gloo`, `nccl`: each counts separately."""
    group: str
    """Name of the process group, the same on every rank."""
    number: int
    """Its position in the group's sequence, the same on every rank (`collective_seq_id`)."""
    operation: str
    """`all_reduce`."""
    state: str
    """scheduled, started or completed; gloo does not tell the first two apart."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """Shape of each input."""
    dtypes: tuple[str, ...] = ()
    """Element type of each input: `Float`."""
    file: str | None = None
    """Where it was called from; JSON of torch's own does not say."""
    line: int | None = None


class GroupProgress(Row, frozen=True, kw_only=True):
    """The progress of one rank in one process group."""

    backend: str
    name: str
    description: str = ""
    """`default_pg` for the group of all ranks."""
    ranks: tuple[int, ...] | None = None
    """Its members; `None` where the backend does not say."""
    enqueued: int
    """Number of the last collective that was enqueued."""
    waits_in: int | None = None
    """Number of the oldest collective that is not finished; `None` when all are."""
    counted: bool = True
    """False when the number is that of the group's status, which counts other operations too."""


class FlightRecord(Row, frozen=True, kw_only=True):
    """The Flight Recorder of one rank, as last read."""

    rank: int | None = None
    pid: Pid | None = None
    read_at: Moment
    """When it was queried, or its file was written, seconds since the epoch."""
    groups: tuple[GroupProgress, ...] = ()
    """Groups it has used; one that is missing was never used."""
    unnamed: int = 0
    """Groups without a name, which may be any group."""


class Xid(Row, frozen=True, kw_only=True):
    """An error the driver reported while mpmon listened: numbers as in NVIDIA's "Xid Errors"."""

    number: int
    seen_at: Moment


class Gpu(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One NVIDIA device, by UUID, as nvml.h words it; a field that is `None` has its reason in `reasons`."""

    uuid: str
    index: int
    """NVML's number, in PCI order; CUDA may number devices differently."""
    host: str = ""
    """As in `Process`."""
    name: str
    bus_id: str | None = None
    read_at: Moment = 0.0
    """When these values were read, seconds since the epoch; older than the snapshot when the driver does not answer."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    """Without what the driver reserves (memory v2), as nvidia-smi counts."""
    memory_reserved_bytes: int | None = None
    utilization_percent: float | None = None
    """Share of the last sample period in which at least one kernel ran: one that only spins counts in full."""
    memory_utilization_percent: float | None = None
    """Share of that period in which device memory was read or written; not how full it is."""
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    clock_event_reasons: tuple[str, ...] | None = None
    """Why clocks are not higher: `power cap`, `thermal (hardware)` …; empty when nothing holds them down."""
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    recovery_action: str | None = None
    """What the driver requests after an error: `none`, `reset`, `reboot`, `drain` …"""
    xids: tuple[Xid, ...] = ()
    """Errors since mpmon started; earlier ones cannot be queried."""
    mig: bool | None = None
    compute_mode: str | None = None
    persistence: bool | None = None
    pcie_rx_bytes_per_s: int | None = None
    """Only while a view needs it: the driver measures for 20 ms per direction."""
    pcie_tx_bytes_per_s: int | None = None
    problem: str | None = None
    """Why the device as a whole cannot be read: `the GPU is lost`, `driver call nvmlDeviceGetPowerUsage blocks`."""
    blocked_since: Moment | None = None
    """Since when a driver call on it has not returned, seconds since the epoch."""
    reasons: dict[str, str] = {}
    """Why a field is `None`."""


SLOWDOWNS = ("thermal", "slowdown", "brake")
"""Words of the reasons in `Gpu.clock_event_reasons` that heat or hardware gives: nvmlClocksEventReason of nvml.h with
ThermalSlowdown, HwSlowdown, PowerBrake.  That clocks stay within the power limit is normal.
"""


class MigInstance(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A part of a device that CUDA sees as a separate device."""

    uuid: str
    gpu_uuid: str
    gpu_instance: int
    compute_instance: int | None = None
    name: str
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    reasons: dict[str, str] = {}


class GpuProcess(Row, frozen=True, kw_only=True, omit_defaults=False):
    """What the driver attributes to one process on one device or MIG instance, of the job or not."""

    pid: Pid
    """As the driver says; a pid of another namespace when `reasons` has `pid`."""
    gpu_uuid: str
    mig_instance: int | None = None
    """GPU instance id."""
    compute_instance: int | None = None
    kinds: tuple[str, ...] = ()
    """In which of the driver's lists it is: `compute`, `graphics`, `mps`."""
    name: str | None = None
    """The kernel's name of the process, when it is not of the job."""
    memory_bytes: int | None = None
    """All memory its context holds, torch's cache and libraries included."""
    sm_percent: float | None = None
    """Share of the sample period in which its kernels ran; 0 when the driver has no new sample of it."""
    sample_age_s: float | None = None
    """How old that sample was when it was read."""
    reasons: dict[str, str] = {}


class SharedFile(Row, frozen=True, kw_only=True):
    """A file of torch in shared memory: a storage that processes share, or reference counts of CUDA memory.

    torch's aten/src/ATen/MapAllocator.cpp and torch/csrc/CudaIPCTypes.cpp.
    """

    id: Name
    """`file:DEV:INODE`."""
    kind: str
    """`storage`, or `refcounter`: 64 bytes and 10000 counts of 8 bytes."""
    path: str
    deleted: bool = False
    """It no longer has a name: with the strategy `file_descriptor` from the start, otherwise it was removed."""
    size_bytes: int
    creator: Pid | None = None
    """The pid in its name: of its creator, in the pid namespace of its creator."""
    creator_alive: bool | None = None
    count: int | None = None
    """References of a storage of the strategy `file_system`, from its header. With `deleted`: its name was removed."""
    mappings: int | None = None
    """Of a refcounter: how many have it mapped, from its header."""
    slots: tuple[tuple[int, int], ...] = ()
    """Of a refcounter: slot and count of those that are not 0; at most the first 4096."""
    live_slots: int | None = None
    """How many of its counts are not 0."""
    released: tuple[tuple[int, Moment], ...] = ()
    """Slots whose count was seen to fall to 0, and when, the latest last; at most the last 256."""


class SharedUse(Row, frozen=True, kw_only=True):
    """How one process uses a `SharedFile`."""

    pid: Pid
    object: Name
    maps: int = 0
    descriptors: int = 0


class SharedMemory(Row, frozen=True, kw_only=True, omit_defaults=False):
    """The tmpfs at /dev/shm as processes of the job see it: statvfs(3) through /proc/PID/root."""

    device: DeviceNumber
    """Its device number: processes with another one cannot share files."""
    pids: tuple[Pid, ...] = ()
    """Processes of the job that see this one."""
    size_bytes: int
    used_bytes: int


class Limits(Row, frozen=True, kw_only=True, omit_defaults=False):
    """What sharing uses up in one process."""

    pid: Pid
    descriptors: int | None = None
    descriptors_limit: int | None = None
    """Soft limit of RLIMIT_NOFILE."""
    maps: int | None = None
    maps_limit: int | None = None
    """vm.max_map_count."""
    storages: int = 0
    """Files of torch in shared memory it has mapped: all of them, also where there are too many for rows of their own."""
    storage_bytes: int = 0
    """What it maps of them, in whole pages."""
    storage_descriptors: int = 0
    """Its descriptors of such files."""
    address_bytes: int | None = None
    """Address space that is mapped or reserved, in whole GiB."""
    address_limit: int | None = None
    """Of RLIMIT_AS, or of the processor."""
    torch: str | None = None
    """The version of the torch that it has loaded: `2.13.0+cu126`; `None` without one, or where that could not be read."""


class QueueState(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A queue of multiprocessing: what the program's own objects say it is made of, and what the kernel says is in it.

    Lib/multiprocessing/queues.py: a pipe, a lock at each end of it, and a semaphore that counts the room left.
    """

    object: Name
    """`pipe:INODE`."""
    kind: str = "Queue"
    """`Queue`, `JoinableQueue`, or `SimpleQueue`, which counts nothing."""
    pid: Pid
    """The process of the job in whose memory it was found."""
    capacity: int | None = None
    """Items it can hold; `None` when it has no bound."""
    items: int | None = None
    """Items put and not taken yet, including those that still wait for the feeder thread."""
    unread_bytes: int | None = None
    """In its pipe."""
    read_lock: Name | None = None
    """Id of the lock that consumers take."""
    write_lock: Name | None = None
    room: Name | None = None
    """Id of the semaphore that counts the free space."""
    tasks: Name | None = None
    """Of a `JoinableQueue`, id of the semaphore that counts the items without `task_done()`."""
    joined: Name | None = None
    """Of a `JoinableQueue`, id of the semaphore on which `join()` sleeps."""
    read_locked: bool | None = None
    write_locked: bool | None = None
    putters: tuple[Pid, ...] = ()
    """Processes observed to have put more than they got; of ended ones, the youngest."""
    getters: tuple[Pid, ...] = ()
    """Processes observed to have got more than they put; of ended ones, the youngest."""
    taken: int | None = None
    """Items the getters have taken so far, minus what they have put; `None` until known for all of them."""
    ledgers: tuple[tuple[Pid, int], ...] = ()
    """Pid, and what it has put less what it has got, of those who were seen to do either; where they are too many
    only of those who get, or of nobody."""
    by_ended: int | None = None
    """Items put by ended processes, minus what they got; `None` until known for all users of the queue."""
    unfinished: int | None = None
    """Of a `JoinableQueue`, items that were put and for which `task_done()` was not called."""
    undone: tuple[tuple[Pid, int], ...] = ()
    """Pairs of a pid in `ledgers` and how many more items it has taken than it has called `task_done()` for."""
    reasons: dict[str, str] = {}
    """Why a field is `None`."""


class ShimProcess(Row, frozen=True, kw_only=True):
    """A process with the queue shim, according to its file; it may be dead."""

    pid: Pid
    start_time: AnyMoment
    alive: bool
    dropped: int = 0
    """Number of records dropped for lack of room."""
    collected_at: Moment | None = None
    """When it last called `torch.cuda.ipc_collect()`."""
    received: int = 0
    """Transfers of CUDA memory it ever received, including repeated ones."""


class QueueRecord(Row, frozen=True, kw_only=True):
    """What one process did with one queue, as recorded by the shim. Moments are seconds since the epoch."""

    pid: Pid
    object: Name
    """`pipe:INODE` of the queue."""
    kind: str = "Queue"
    """`Queue`, `JoinableQueue`, `SimpleQueue`."""
    made_at: str | None = None
    """Where it was made, `job.py:9 in main`, when this process made it."""
    capacity: int | None = None
    """`None` when it has no bound."""
    puts: int = 0
    gets: int = 0
    sent: int = 0
    """Objects its feeder has sent."""
    sent_bytes: int = 0
    received_bytes: int = 0
    lost: int = 0
    """Objects the feeder could not send: put returned, but no process gets them."""
    lost_site: str | None = None
    """Where the last one of these was put."""
    descriptors: int = 0
    """Files that were sent along: only this process hands them out, so with its end they are lost."""
    put_at: Moment | None = None
    """When its last put began."""
    get_at: Moment | None = None
    putting: bool = False
    """That put has not returned."""
    getting: bool = False
    put_site: str | None = None
    """Where the last put was called, `job.py:16 in train_step`."""
    get_site: str | None = None


class ExportRecord(Row, frozen=True, kw_only=True):
    """One sent transfer of CUDA memory, as recorded by the producer's shim."""

    pid: Pid
    """The producer."""
    file: str
    """Name of the refcounter file."""
    slot: int
    size_bytes: int
    device: int
    """The producer's device number."""
    sent_at: Moment
    object: Name | None = None
    """`pipe:INODE` of the queue it went through; `None` when it went another way."""
    site: str | None = None
    dropped_at: Moment | None = None
    """When the producer was seen to have dropped it: with a count above 0 its memory is in limbo."""
    synced: bool = False
    """It was sent with a full synchronization of the stream, because no events were left."""


class ImportRecord(Row, frozen=True, kw_only=True):
    """One received transfer of CUDA memory, as recorded by the consumer's shim."""

    pid: Pid
    """The consumer."""
    file: str
    slot: int
    received_at: Moment
    again: bool = False
    """It had that storage already, and released the count at once."""
    object: Name | None = None


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
    reasons: dict[str, str] = {}
    """Why a field is `None`."""


class ProbeReport(Row, frozen=True, kw_only=True):
    """How one probe's last run went."""

    name: str
    ok: bool
    seconds: float
    problem: str | None = None


class Unknown(Row, frozen=True, kw_only=True):
    """One thing that could not be read, and why, in words a user understands."""

    table: str
    """The table that misses something: `stacks`, `blocked`, `processes` …"""
    pid: Pid
    reason: str
    gone: bool = False
    """The process ended while it was read: no right or option would change that."""

    @property
    def not_python(self) -> bool:
        """It has no Python frames to read."""
        return self.reason == NOT_PYTHON


class Mount(Row, frozen=True, kw_only=True):
    """A file system with an external server (NFS, SMB, Lustre, FUSE ...) whose files processes of the job use."""

    device: Name
    """Hexadecimal `MAJOR:MINOR`, as in the ids of its files."""
    kind: str
    """`nfs4`, `fuse.sshfs` ..."""
    source: str
    """`server:/export`, as proc_pid_mountinfo(5) names it."""
    path: str
    """Its path as the processes see it."""
    pids: tuple[Pid, ...] = ()
    """Pids that use it: open files, what a thread is blocked in, mappings of one that waits for a page."""
    asked_at: AnyMoment | None = None
    """When its server was last asked, seconds since the epoch; `None` if unknown."""
    unanswered_since: AnyMoment | None = None
    """When it was asked and has not answered since; `None` for one that answers."""
    problem: str | None = None
    """What it answered with instead of its size: `transport endpoint is not connected`."""


class Node(Row, frozen=True, kw_only=True):
    """One machine of a multi-machine job, in a snapshot joined from several (`mpmon.nodes`)."""

    host: str
    """As in `Process`: its name, with a number where several have the same."""
    number: int
    """Its pids and tids are those of its kernel and this times `PIDS_OF_A_HOST`."""
    taken_at: Moment | None = None
    """When its facts were read, by the clock of the snapshot; `None` where there are none."""
    offset_s: float = 0.0
    """How far its clock is ahead of that of the snapshot, as far as is known."""
    later_s: float = 0.0
    """Shift added to its times so that they align with the other machines."""
    cpu_count: int = 1
    addresses: tuple[str, ...] | None = None
    """As in `Snapshot`."""
    problem: str | None = None
    """Why nothing is known of it at the moment: `does not answer`."""
    state: str | None = None
    """Of the agent there: `fresh`, `late`, `unreachable`, `ended`, `no job`; `None` where recordings were made by hand."""
    heard_at: Moment | None = None
    """When it was last heard from, if it has been silent for unusually long."""
    version: str | None = None
    """Version of the mpmon there; `None` if unknown."""
    ranks: tuple[tuple[int, int], ...] = ()
    """Ranks that run there according to its agent, as ranges; empty if it reported none."""
    rights: str | None = None
    """What mpmon may not read there, and the remedy; empty where it may read the job, `None` where that is not known."""
    commands: tuple[str, ...] = ()
    """Commands for a person to log in there or to drain it; mpmon never runs them."""


PIDS_OF_A_HOST = 1 << 23
"""Larger than any pid of a kernel: PID_MAX_LIMIT of linux/threads.h is 2**22."""


LATE = "late"
"""The state of an agent that has been silent for some seconds."""

NO_JOB = "no job"
"""The state of an agent where no process of the job runs."""


class Figures(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Health figures of a machine of the job, over the last seconds; a figure that is `None` has its reason in `reasons`."""

    host: str = ""
    """As in `Process`."""
    over_s: Amount = 0.0
    """The figures cover this many seconds."""
    load_per_cpu: Amount | None = None
    """One-minute load average per CPU: threads that run or are runnable, and those in uninterruptible sleep
    (proc_loadavg(5)).
    """
    steal_percent: Amount | None = None
    """CPU time that the hypervisor gave to others while something here wanted to run, of all CPU time (proc_stat(5))."""
    throttled_percent: Amount | None = None
    """Periods in which a control group of the job had used up its CPU quota, of those in which it wanted to run: `nr_throttled`
    and `nr_periods` of cpu.stat (the kernel's admin-guide/cgroup-v2); that of the group that has most.
    """
    memory_stall_percent: Amount | None = None
    """Time in which some task waited for memory: `some` of /proc/pressure/memory (the kernel's accounting/psi)."""
    gpus_slowed: Amount | None = None
    """Devices of the job that heat or their hardware slowed down at most readings."""
    gpu_clock_percent: Amount | None = None
    """SM clock of the job's slowest device that works, of its maximum."""
    gpu_utilization_percent: Amount | None = None
    """Mean of the job's devices."""
    gpu_power_watts: Amount | None = None
    """Mean of the job's devices."""
    nic_errors_per_s: Amount | None = None
    """Packets with errors, both directions of all network devices but loopback together: /proc/net/dev (proc_net(5))."""
    nic_drops_per_s: Amount | None = None
    """The same of packets that were dropped."""
    retransmit_percent: Amount | None = None
    """Share of TCP segments that were retransmitted, in the network namespace of the job's root (RFC 4022)."""
    reasons: dict[str, str] = {}
    """Why a field is `None`."""


class Elsewhere(Row, frozen=True, kw_only=True):
    """Ranks of the job without a process in the snapshot, and what is known of them (`mpmon.nodes`)."""

    ranks: tuple[tuple[int, int], ...]
    """Their numbers, as ranges: first and last."""
    does: str
    """What all of them do: `waiting for all_reduce in main() at train.py:49`."""
    operation: str | None = None
    """The collective they are in, as far as they are in one."""
    members: tuple[tuple[int, int], ...] = ()
    """The ranks of the process group of that, as ranges; empty where that is not known."""
    since: Moment | None = None
    """Since when the last of them makes no progress; `None` if they make progress."""
    like: int | None = None
    """The number of a visible rank in the same state, which represents them; `None` if there is none."""
    hosts: str | None = None
    """The machines where they run, folded: `n[0-3,8-7999]`."""
    machines: int | None = None
    """The number of these machines."""


class Snapshot(Row, frozen=True, kw_only=True, eq=False):
    """All rows of one round. Compared by identity."""

    taken_at: Moment
    """The sampler's clock never steps back."""
    root_pid: Pid
    root_start_time: Moment
    host: str = ""
    addresses: tuple[str, ...] | None = None
    """IP addresses of the machine's network interfaces, without loopback; `None` if they were not read."""
    cpu_count: int = 1
    processes: tuple[Process, ...] = ()
    threads: tuple[Thread, ...] = ()
    exits: tuple[Exit, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    spots: tuple[Spot, ...] = ()
    objects: tuple[KernelObject, ...] = ()
    handles: tuple[Handle, ...] = ()
    outsiders: tuple[Handle, ...] = ()
    """Processes outside the job that have objects which threads of the job wait on."""
    semaphores: tuple[SemaphoreUse, ...] = ()
    locks: tuple[LockUse, ...] = ()
    awaited: tuple[JoinTarget, ...] = ()
    remembered: tuple[KnownChild, ...] = ()
    stacks: tuple[Stack, ...] = ()
    native_stacks: tuple[NativeStack, ...] = ()
    """For the threads of findings, or for all threads if requested."""
    tasks: tuple[Task, ...] = ()
    collectives: tuple[Collective, ...] = ()
    flight_records: tuple[FlightRecord, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_processes: tuple[GpuProcess, ...] = ()
    mig_instances: tuple[MigInstance, ...] = ()
    driver: str | None = None
    """Version of the NVIDIA driver; `None` without one."""
    shared_files: tuple[SharedFile, ...] = ()
    shared_uses: tuple[SharedUse, ...] = ()
    shared_memory: tuple[SharedMemory, ...] = ()
    limits: tuple[Limits, ...] = ()
    queues: tuple[QueueState, ...] = ()
    shims: tuple[ShimProcess, ...] = ()
    queue_records: tuple[QueueRecord, ...] = ()
    exports: tuple[ExportRecord, ...] = ()
    imports: tuple[ImportRecord, ...] = ()
    cgroups: tuple[Cgroup, ...] = ()
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[Node, ...] = ()
    """The machines it was joined from; empty for a single machine."""
    figures: tuple[Figures, ...] = ()
    """One per machine, including machines whose processes are not in the snapshot."""
    elsewhere: tuple[Elsewhere, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    probes: tuple[ProbeReport, ...] = ()

    @property
    def root(self) -> Process | None:
        """The process the user named, `None` once it is gone."""
        return next((p for p in self.processes if p.pid == self.root_pid), None)
