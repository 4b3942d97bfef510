"""The kinds of rows that describe a library in its file in this folder.

A row names functions by the end of their file's path and by their unqualified names: both are the same in every installation.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec


class Wait(Enum):
    """Kinds of waits."""

    # Members are compared by identity, so hash by identity too: Enum's own hash is a Python function call.
    __hash__ = object.__hash__

    LOADER_BATCH = auto()
    """A trainer waits for the next batch of its DataLoader workers."""
    LOADER_INDEX = auto()
    """A DataLoader worker waits for work: idle, as expected."""
    POOL_TASK = auto()
    """A pool or executor worker waits for work: idle, as expected."""
    POOL_RESULT = auto()
    """A thread waits for the result of a pool."""
    FUTURE_RESULT = auto()
    JOIN_PROCESS = auto()
    """Waits for a child to exit."""
    JOIN_THREAD = auto()
    EXIT = auto()
    """The interpreter is shutting down and waits for threads or children."""
    QUEUE_GET = auto()
    """multiprocessing queue or pipe: waits for an item."""
    QUEUE_PUT = auto()
    """multiprocessing queue: waits for room."""
    THREAD_QUEUE = auto()
    """queue.Queue, between threads of one process."""
    CONDITION = auto()
    """Event, condition or barrier between threads of one process."""
    PROCESS_EVENT = auto()
    """Event, condition or barrier between processes."""
    LOCK = auto()
    """A lock or semaphore between processes."""
    COLLECTIVE = auto()
    """Inside a collective or point-to-point operation of torch.distributed."""
    RENDEZVOUS = auto()
    """Gathering the ranks, or a key of the store."""
    STORE_KEY = auto()
    """A key of the store of torch.distributed that another client must set."""
    REMOTE_CALL = auto()
    """Another process's answer to a torch.distributed.rpc call."""
    REMOTE_END = auto()
    """A graceful shutdown of torch.distributed.rpc: serves the other processes until all of them have entered it."""
    LAUNCHER = auto()
    """A launcher watches its ranks."""
    SIGNAL = auto()
    """A program has started other processes or threads and stays until it is told to end; their progress is what counts."""
    SERVICE = auto()
    """A helper thread or process waits for requests: idle, as expected."""
    DEBUGGER = auto()
    """pdb, breakpoint() or input() waits for a person to type."""
    FORK_SERVER = auto()
    """Waits until the fork server has started a process."""
    OTHER_CLIENTS = auto()
    """A manager's object blocks one client's call until another client does something."""
    GPU = auto()
    """Sleeps until its GPU has finished its work; only the GPU can tell whether that makes progress."""
    FILE_MARK = auto()
    """A loop looks again and again whether a file exists."""
    TIMER = auto()
    """An armed timer waits until it is due, and will act then."""
    # What only the kernel reports:
    SLEEP = auto()
    FUTEX = auto()
    """A lock of this process; nothing else is known of it."""
    THREAD_LOCK = auto()
    """A lock between threads of this process, whose holder the interpreter or the lock itself names."""
    PIPE_READ = auto()
    PIPE_WRITE = auto()
    SOCKET = auto()
    EVENT_LOOP = auto()
    """asyncio waits for its next event: a timer, a descriptor, a call from another thread."""
    POLL = auto()
    FILE_LOCK = auto()
    NAMED_OBJECT = auto()
    """A System V semaphore, or a message of System V or POSIX, which anybody may post or send."""
    CHILD = auto()
    FILE = auto()
    """Reading, writing, opening or syncing a file."""
    RUNNING = auto()
    """On a CPU, or ready to be."""
    STOPPED = auto()
    UNKNOWN = auto()


class Context(Enum):
    """The library call that encloses the user's code and waits for it to return."""

    DATALOADER_WORKER = "a DataLoader worker's item"
    SAMPLER = "the DataLoader's sampler"
    POOL_WORKER = "a pool task"
    EXECUTOR_THREAD = "an executor's task"


Functions = tuple[str, frozenset[str]]
"""The end of a file's path, and names of functions in it."""


class WaitRow(msgspec.Struct, frozen=True):
    """A frame that says what its thread waits for."""

    kind: Wait
    file: str
    """The end of its path."""
    functions: frozenset[str]
    words: str = ""
    """What messages call it; by default the function's name."""
    called: str | None = None
    """The function of the frame that it called; empty: it must be the innermost frame itself."""
    encloses: bool = False
    """It calls other waiting functions, whose names are more specific."""
    operation: str = ""
    """The operation of a process group that it is, if its name is not the function's."""


class AwaitRow(msgspec.Struct, frozen=True):
    """A coroutine of a library that says what a task in it waits for, if no code of the job is further in."""

    kind: str
    """As in `Task.waits`; `body` for the rest of a request."""
    file: str
    """The end of its path."""
    functions: frozenset[str]


class PollRow(msgspec.Struct, frozen=True):
    """What a polling loop waits for, inferred from what it tests."""

    kind: Wait
    names: frozenset[str]
    """Names of methods, or of attributes with a leading dot."""
    words: str


class WorkerRow(msgspec.Struct, frozen=True):
    """A process that works on request; without requests it is idle, as expected."""

    kind: str
    """Its name without its number: `pool worker`."""
    functions: Functions
    """Frames that only such a process has."""
    number: str = ""
    """The local variable of that frame that holds its number; if empty, the number is its position among the workers of the
    same process.
    """
    process_name: str = ""
    """The process name that the library sets, proc_pid_comm(5)."""
    given_name: str = ""
    """Part of the names that the library gives to these processes in the program."""
    of_pool: bool = True
    """It serves threads that wait for results of a pool (`Wait.POOL_RESULT`, `FUTURE_RESULT`); other workers have their own
    kind of wait.
    """


class HelperRow(msgspec.Struct, frozen=True):
    """A process that only serves others, and whose own progress never counts."""

    kind: str
    """What it is called: `resource tracker`."""
    command: str = ""
    """Words in its command line."""
    process_name: str = ""
    """Prefix of its process name, proc_pid_comm(5)."""
    functions: Functions | None = None
    """Frames that only such a process has."""
    lasts: bool = False
    """It ends once the program that started it has ended."""
    bequeaths: bool = False
    """Its children have its command line too; they are recognised because they run a `Process`."""


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one library."""

    waits: tuple[WaitRow, ...] = ()
    """If two rows match one frame, the first counts."""
    awaits: tuple[AwaitRow, ...] = ()
    polls: tuple[PollRow, ...] = ()
    runs: tuple[tuple[Context, Functions], ...] = ()
    """Calls of the library that run the user's code and wait for it to return."""
    understood: tuple[str, ...] = ()
    """Packages whose frames count as library internals, like those of the standard library, because their functions are
    listed here.
    """
    copies: tuple[tuple[str, str], ...] = ()
    """Copies of the standard library, function for function: the path prefix below the packages folder, and what it is a copy
    of.
    """
    bundles: tuple[str, ...] = ()
    """Folders in which a package bundles others, by the path below the packages folder."""
    workers: tuple[WorkerRow, ...] = ()
    helpers: tuple[HelperRow, ...] = ()
    launchers: tuple[str, ...] = ()
    """Words in the command line of a program that starts ranks."""
    launches: tuple[Functions, ...] = ()
    """Functions of such a program; without names, all functions of the file."""
    rank_threads: frozenset[str] = frozenset()
    """Names of threads that only a member of a process group has, proc_pid_comm(5)."""
    rank_words: tuple[str, ...] = ()
    """Names, in small letters, by which programs call the number of a rank, and whether it is the first."""
    phases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Functions that a library calls in this order in each step: the end of their file's path, and their names."""
    serves_one: tuple[Functions, ...] = ()
    """Functions that serve one connection per call."""
    serves_itself: tuple[Functions, ...] = ()
    """Functions of threads that work for the library's own ends, and never call the user's code."""
    shares: tuple[Functions, ...] = ()
    """Functions that wait for what any client of the library's server may put, set or publish, and for no task."""
    turns: tuple[Functions, ...] = ()
    """Frames of an event loop that run a callback, during which the loop does nothing else."""
    only_waits: tuple[Functions, ...] = ()
    """Functions that wait in a system call and call no user code."""


def functions(file: str, names: str = "") -> Functions:
    """The functions of a file, as names separated by blanks."""
    return file, frozenset(names.split())


def awaits(kind: str, file: str, names: str) -> AwaitRow:
    """One row: a task in one of these coroutines of this file."""
    return AwaitRow(kind, file, frozenset(names.split()))


def polls(kind: Wait, names: str, words: str) -> PollRow:
    """One row: a loop that tests only these methods and attributes."""
    return PollRow(kind, frozenset(names.split()), words)


def waits(
    kind: Wait, file: str, names: str, words: str = "", called: str | None = None, *, encloses: bool = False
) -> WaitRow:
    """One row: a frame of this file in one of these functions."""
    return WaitRow(kind, file, frozenset(names.split()), words, called, encloses)


def collectives(file: str, names: str, operation: str = "", *, encloses: bool = False) -> WaitRow:
    """One row: each of these functions of this file is an operation of a process group, or all are one operation."""
    return WaitRow(Wait.COLLECTIVE, file, frozenset(names.split()), operation, None, encloses, operation)
