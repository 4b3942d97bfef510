"""What each thread waits for, in the program's own terms: by its frames, refined by the kernel's facts.

Theory. The innermost frames of a blocked thread belong to the machinery (standard library, torch), called by some other
code. Of these machinery frames, the outermost one listed in the table gives the meaning: `poll` called by
`Connection.recv` called by `Queue.get` called by `_try_get_data` is *the next batch*, not *a poll*. The table is the
package `libraries`, one file per library. A thread whose innermost frame is neither machinery nor listed is in its own
code: then the system call gives the meaning (asleep, in file I/O, in a socket), or the thread is running.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from itertools import chain, islice

import msgspec

from mpmon.diagnosis.libraries import POLLS, RUNS, WAITS
from mpmon.diagnosis.libraries.rows import Context, PollRow, Wait, WaitRow
from mpmon.diagnosis.stacks.copies import known_as
from mpmon.diagnosis.stacks.frames import bare, calls, inner_machinery, is_machinery, is_user, own_frames
from mpmon.model import Blocked, Frame, Stack

ENDS_OF_PROCESSES = frozenset({Wait.JOIN_PROCESS, Wait.CHILD, Wait.EXIT, Wait.LAUNCHER})
"""Waits for processes to end."""

RESULTS = frozenset({Wait.FUTURE_RESULT, Wait.POOL_RESULT})
"""Waits for the result of a task."""

REQUESTS = RESULTS | {Wait.LOADER_BATCH}
"""Waits of a client for what a library's worker was asked to do."""

OUTCOMES = ENDS_OF_PROCESSES | REQUESTS
"""Waits until others are done, with a task or altogether."""

MAY_BE_ASKED = frozenset({Wait.CONDITION, Wait.THREAD_QUEUE})
"""Waits, for an item or an event, that any thread of the process may end, such as one that handles the next request."""

EVENTS = frozenset({Wait.CONDITION, Wait.EVENT_LOOP, Wait.FUTEX, Wait.POLL, Wait.SIGNAL})
"""Waits that do not show what for: perhaps for whatever happens next, as in the main thread of an idle service."""

POOL_TASKS = frozenset({Context.POOL_WORKER, Context.EXECUTOR_THREAD})
"""Tasks that a pool or an executor runs."""

LOCKS_OF_THREADS = frozenset({Wait.FUTEX, Wait.THREAD_LOCK})
"""Waits for a lock of the thread's own process."""

LOCKS = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.THREAD_LOCK})
"""Waits for something that is held and may be released."""

COMES_BY_READING = frozenset({Wait.PIPE_READ, Wait.QUEUE_GET})
"""Waits for data that multiprocessing reads with read(2)."""

EXCHANGES = COMES_BY_READING | {Wait.SOCKET, Wait.PIPE_WRITE, Wait.QUEUE_PUT}
"""Waits for the other end of something that processes have in common, to send or to read."""

AMONG_RANKS = frozenset({Wait.COLLECTIVE, Wait.RENDEZVOUS, Wait.STORE_KEY, Wait.REMOTE_END})
"""Waits for other ranks, wherever they run."""

READS = COMES_BY_READING | REQUESTS
"""Waits for data from other threads or processes."""

STDERR = 2
"""The last standard descriptor."""

IDLE = frozenset({Wait.LOADER_INDEX, Wait.POOL_TASK, Wait.SERVICE})
"""Legitimately idle: there is no request."""


_BY_FUNCTION: dict[str, list[WaitRow]] = {}
for _row in WAITS:
    for _name in _row.functions:
        _BY_FUNCTION.setdefault(_name, []).append(_row)

SIGNAL_CALLS = frozenset({"pause", "rt_sigsuspend", "rt_sigtimedwait"})
"""System calls that only a signal ends."""

FROM_PEOPLE: frozenset[int] = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
"""What a terminal, a service manager and a scheduler of batch jobs send."""

SLEEP_CALLS = frozenset({"nanosleep", "clock_nanosleep", *SIGNAL_CALLS})
EPOLL_CALLS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"})
_POLLS = EPOLL_CALLS | {"poll", "ppoll", "select", "pselect6"}
_FILE_CALLS = frozenset(
    {"fsync", "fdatasync", "openat", "open", "newfstatat", "pread64", "pwrite64", "copy_file_range"}
)


_NAMED_OBJECTS = {
    **dict.fromkeys(("semop", "semtimedop"), "a System V semaphore"),
    "msgrcv": "a message of a System V queue", "msgsnd": "room in a System V queue",
    "mq_timedreceive": "a message of a POSIX queue", "mq_timedsend": "room in a POSIX queue",
}  # fmt: skip
"""What calls wait for whose objects have no descriptor, or one that does not tell who has the other end."""

_EVENTS = frozenset({"inotify", "eventfd", "timerfd", "signalfd"})
"""Objects at which read(2) waits for an event."""


class WaitState(msgspec.Struct, frozen=True, gc=False):
    """What one thread waits for."""

    kind: Wait
    words: str
    """In the program's own terms: `next batch`, `all_reduce`, `time.sleep`."""
    frame: Frame | None = None
    """The frame that gave the meaning."""
    operation: str = ""
    """The operation of a process group that the thread is in, if it is in one."""

    @property
    def idle(self) -> bool:
        """Legitimately idle."""
        return self.kind in IDLE


STOPPED = WaitState(Wait.STOPPED, "stopped by a signal")


def wait_state(stack: Stack | None, blocked: Blocked | None) -> WaitState:
    """What a thread waits for, from its frames and the kernel."""
    if blocked and blocked.state in "Tt":
        return STOPPED if blocked.state == "T" else WaitState(Wait.STOPPED, "held by a debugger")
    found = _from_frames(stack) if stack else None
    if found and not (found.kind is Wait.COLLECTIVE and _finished(blocked)):
        return _sharpened(found, blocked)
    return _from_kernel(stack, blocked)


def _from_frames(stack: Stack) -> WaitState | None:
    best: WaitState | None = None
    called = ""
    for frame in chain(stack.frames[:1], islice(inner_machinery(stack), 1, None)):
        function = bare(frame.function)
        for pattern in _BY_FUNCTION.get(function, ()):
            if known_as(frame.file).endswith(pattern.file) and pattern.called in (None, called):
                operation = pattern.operation or function if pattern.kind is Wait.COLLECTIVE else ""
                found = WaitState(pattern.kind, pattern.words or function, frame, operation)
                inner_wins = best and (
                    (pattern.encloses and best.kind is found.kind) or (best.kind, found.kind) in _INNER_WINS
                )
                if best and inner_wins:
                    # A barrier between processes waits in an event, which is only how it is made.
                    best = msgspec.structs.replace(best, words=found.words) if pattern.called else best
                else:
                    best = found
                break
        called = function
    return best


def has_no_limit(blocked: Blocked | None) -> bool:
    """The thread waits in epoll_wait(2) or epoll_pwait(2), whose fourth argument, an `int`, is -1: without a time limit."""
    return (
        blocked is not None
        and blocked.syscall in ("epoll_wait", "epoll_pwait")
        and len(blocked.args) > 3
        and blocked.args[3] & 0xFFFFFFFF == 0xFFFFFFFF
    )


def in_barrier(stack: Stack | None) -> bool:
    """In a barrier of Lib/threading.py, also the base of multiprocessing's; no other function there has that name."""
    return stack is not None and any(
        bare(frame.function) == "_wait" and frame.file.endswith("/threading.py") for frame in inner_machinery(stack)
    )


_INNER_WINS = frozenset({
    (Wait.RENDEZVOUS, Wait.LAUNCHER), (Wait.PROCESS_EVENT, Wait.CONDITION), (Wait.POOL_RESULT, Wait.OTHER_CLIENTS),
    (Wait.FUTEX, Wait.THREAD_QUEUE), (Wait.FUTEX, Wait.CONDITION),
})  # fmt: skip
"""Pairs in which the inner frame is more specific: an agent still in its rendezvous, a barrier between processes, the lock
that a queue or an event is made of.
"""


def _finished(blocked: Blocked | None) -> bool:
    return blocked is not None and blocked.state == "R"


def _sharpened(found: WaitState, blocked: Blocked | None) -> WaitState:
    """Corrects frames by the kernel's facts: a feeder thread blocked in a write or a lock is not idle."""
    if found.kind is not Wait.SERVICE or blocked is None or blocked.state != "S":
        return found
    if blocked.writes:
        return WaitState(Wait.PIPE_WRITE, "room in a pipe", found.frame)
    if any(name.startswith("semaphore:") for name in blocked.waits_on):
        return WaitState(Wait.LOCK, "an inter-process lock", found.frame)
    return found


def _from_kernel(stack: Stack | None, blocked: Blocked | None) -> WaitState:
    if blocked is None:
        return WaitState(Wait.UNKNOWN, "unknown")
    if blocked.state == "R" or blocked.syscall == "running":
        return WaitState(Wait.RUNNING, "runs")
    name = blocked.syscall or ""
    if name in SLEEP_CALLS or (blocked.wakes_at is not None and name != "futex"):
        if row := polled(stack):
            return WaitState(row.kind, row.words, stack.frames[0] if stack else None)
        return WaitState(Wait.SLEEP, "a signal" if name in SIGNAL_CALLS else "time.sleep" if stack else "sleep")
    kinds = [object_id.partition(":")[0] for object_id in blocked.waits_on]
    return _from_call(name, kinds, blocked)


def polled(stack: Stack | None) -> PollRow | None:
    """What a thread that sleeps and re-checks waits for, if its loop tests that and nothing else."""
    tests = set(stack.tests) if stack and stack.tests else None
    return next((row for row in POLLS if tests <= row.names), None) if tests else None


def _from_call(name: str, kinds: list[str], blocked: Blocked) -> WaitState:
    if name in _NAMED_OBJECTS:
        return WaitState(Wait.NAMED_OBJECT, _NAMED_OBJECTS[name])
    if name == "futex":
        kind = Wait.LOCK if "semaphore" in kinds else Wait.FUTEX
        return WaitState(kind, "a lock")
    if name in ("flock", "fcntl") and kinds:
        return WaitState(Wait.FILE_LOCK, "a file lock")
    if name == "vfork" or (name in ("clone", "clone3") and kinds == ["process"]):
        return WaitState(Wait.CHILD, "a child to call exec")
    if name in ("wait4", "waitid") or kinds == ["process"]:
        return WaitState(Wait.CHILD, "a child to exit")
    if "terminal" in kinds and blocked.writes:
        return WaitState(Wait.PIPE_WRITE, "room in a terminal")
    if "terminal" in kinds:
        return (
            WaitState(Wait.DEBUGGER, "somebody to type")
            if _prompts(blocked)
            else WaitState(Wait.FILE, "reading a device")
        )
    if name in _POLLS and (blocked.timeout_s is not None or len(set(kinds)) > 1):
        return WaitState(Wait.POLL, "events of its descriptors")
    if "pty" in kinds and not blocked.writes:
        return WaitState(Wait.PIPE_READ, "output to a terminal")
    if "pipe" in kinds:
        return WaitState(
            Wait.PIPE_WRITE if blocked.writes else Wait.PIPE_READ,
            "room in a pipe" if blocked.writes else "data from a pipe",
        )
    if "socket" in kinds:
        return WaitState(Wait.SOCKET, "room in a socket" if blocked.writes else "data from a socket")
    if name == "read" and kinds == ["eventfd"]:
        return WaitState(Wait.PIPE_READ, "a signal of an eventfd")
    if not _EVENTS.isdisjoint(kinds):
        return WaitState(Wait.POLL, "events of its descriptors")
    if opens_pipe(blocked):
        return WaitState(Wait.FILE, "blocked in open() of a named pipe")
    if name in _FILE_CALLS or blocked.state == "D" or name in ("read", "write"):
        return WaitState(Wait.FILE, _FILE_WORDS.get(name, "reading or writing a file"))
    if kinds or name in _POLLS:
        return WaitState(Wait.POLL, "events of its descriptors")
    return WaitState(Wait.UNKNOWN, name or "unknown")


def opens_pipe(blocked: Blocked | None) -> bool:
    """The thread is in open(2) of a named pipe, by its kernel function (fs/pipe.c)."""
    return blocked is not None and blocked.wchan == "wait_for_partner"


def _prompts(blocked: Blocked) -> bool:
    """The thread reads from a person's terminal. Any other terminal it opened is a device, such as a serial line."""
    own = {"terminal:/dev/tty", "terminal:/dev/console"}
    return blocked.syscall != "read" or blocked.args[:1] <= (STDERR,) or not own.isdisjoint(blocked.waits_on)


_FILE_WORDS = {
    "openat": "opening a file",
    "open": "opening a file",
    "fsync": "syncing a file to its disk",
    "fdatasync": "syncing a file to its disk",
}


def context(stack: Stack | None) -> tuple[Context, int] | None:
    """The innermost library call that encloses the user's code and waits for it, with its position in `stack.frames`."""
    for position, frame in enumerate(own_frames(stack) if stack else ()):
        for kind, functions in RUNS:
            if calls(frame, *functions):
                return kind, position
    return None


def user_lines(stack: Stack) -> Iterable[Frame]:
    """The user's frames, innermost first."""
    return (frame for frame in own_frames(stack) if is_user(frame.file))


def in_own_code(stack: Stack | None) -> bool:
    """Whether the innermost frame is not machinery: a blocking call made directly by the user's or a library's code."""
    return bool(stack and stack.frames and not is_machinery(stack.frames[0].file))


COMMAND_LINE = "<string>"
"""File of the code that `python -c` runs, and of generated code; processes that a library starts so call it at once."""


def in_command_line(stack: Stack) -> bool:
    """Whether the blocking call is made by the code of `python -c`."""
    return bool(stack.frames) and stack.frames[0].file == COMMAND_LINE
