"""Processes that the kernel itself does not answer about, and how mpmon avoids blocking on them.

A process in execve(2) holds a lock until its close-on-exec descriptors are closed, and closing a file on a dead server
does not return. Meanwhile, reading `stat`, `io`, `maps`, `environ`, `wchan`, `syscall` or the links of that process
blocks in state D: `ps` does, and so would mpmon. Only SIGKILL ends such a wait, so a Ctrl-C handler never runs. Nothing
tells beforehand that the lock is taken.

So all reading of /proc is done in a thread that may be left behind: `patiently` waits for it and, if it blocks in the
kernel on some process, marks that process as silent. From then on `check` refuses everything about it except what takes
no lock (`WITHOUT_LOCK`, measured on Linux 6.18), until the thread that was left behind returns. The reading is then
restarted. Such threads hold little, and end with mpmon.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

PATIENCE_S = 1.0
"""How long a thread may be blocked in the kernel without having run."""

LOOK_S = 0.25
"""Interval between two checks of it."""

WITHOUT_LOCK = frozenset({"status", "statm", "comm", "schedstat", "sched", "cgroup", "limits", "mountinfo", "task"})
"""Files of /proc/PID that can be read all the same."""

BY_DESCRIPTOR = {"read", "pread64", "getdents64", "fstat"}
BY_FIRST = {"open", "readlink", "stat", "lstat"}
BY_SECOND = {"openat", "openat2", "readlinkat", "newfstatat"}
"""System calls, by the argument that names the file."""

LONGEST_PATH = 128
"""Bytes: more than a path that begins with /proc/PID needs to name the process."""

silent: dict[int, int | None] = {}
"""Silent processes, with their start time if it was read before, in clock ticks since boot."""

_ABOUT = re.compile(r"/proc/(\d+)/(.*)")


class Standstill(TimeoutError):
    """The kernel does not answer about a process."""

    def __init__(self, pid: int, path: str) -> None:
        super().__init__(errno.ETIMEDOUT, f"the kernel does not answer: reading {path} blocks forever", path)
        self.pid = pid


class LeftBehind(Standstill):
    """The same, just now, and a thread of ours stays blocked there."""


def check(path: str) -> None:
    """
    Raises:
        Standstill: this file belongs to a process that does not answer.
    """
    about = _ABOUT.match(path)
    if about and int(about[1]) in silent and about[2].rpartition("/")[2] not in WITHOUT_LOCK:
        raise Standstill(int(about[1]), path)


def remember_start(pid: int, start_ticks: int | None) -> None:
    """Note what was known of a process before it became silent."""
    if pid in silent:
        silent[pid] = start_ticks


class Reader:
    """A thread that reads /proc, replaced when it is left behind.

    One thread does all, and does not end before it is told to: a helper that a thread has started ends with that thread
    (PR_SET_PDEATHSIG(2const)).
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] | None = None

    def do(self, work: Callable[[], Result]) -> Result:
        """The result of this work.

        Raises:
            LeftBehind: it is blocked on a process that is `silent` now. If it unblocks, the work continues in its
            thread, and its result is lost.
            Exception: what the work raised.
        """
        if self._tasks is None:
            self._tasks = SimpleQueue()
            threading.Thread(target=_serve, args=(self._tasks,), name="mpmon reads", daemon=True).start()
        results: list[Result] = []
        task = _Task(lambda: results.append(work()))
        self._tasks.put(task)
        try:
            task.wait()
        except LeftBehind:
            self._tasks = None
            raise
        return results[0]

    def close(self) -> None:
        """Let the thread end."""
        if self._tasks is not None:
            self._tasks.put(None)
            self._tasks = None


def patiently(work: Callable[[], Result]) -> Result:
    """As `Reader.do`, once."""
    reader = Reader()
    try:
        return reader.do(work)
    finally:
        reader.close()


def persistently(work: Callable[[], Result], reader: Reader | None = None) -> Result:
    """The result of this work, restarted for each process that it blocked on."""
    do = reader.do if reader else patiently
    while True:
        try:
            return do(work)
        except LeftBehind:
            continue


def _serve(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()


class _Task:
    """Work in a thread of its own."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._done = threading.Event()
        self._guard = threading.Lock()
        self._tid = 0
        self._raised: BaseException | None = None
        self._stood: int | None = None
        """The process it blocked on when it was left behind."""

    def run(self) -> None:
        self._tid = threading.get_native_id()
        try:
            self._work()
        except BaseException as problem:
            self._raised = problem
        with self._guard:
            self._done.set()
            if self._stood is not None:
                silent.pop(self._stood, None)

    def wait(self) -> None:
        """Wait until it is done or blocked.

        Raises:
            LeftBehind: it is blocked.
            Exception: what the work raised.
        """
        before, stands_s = b"", 0.0
        while not self._done.wait(LOOK_S):
            now = _counters(self._tid)
            stands_s = stands_s + LOOK_S if now and now == before else 0.0
            before = now
            if stands_s >= PATIENCE_S:
                self._leave()
        if self._raised is not None:
            raise self._raised

    def _leave(self) -> None:
        """Leave the thread behind, if it is blocked on a process; else it is slow for another reason."""
        found = _ABOUT.match(path := _asked(self._tid))
        with self._guard:
            if found and not self._done.is_set():
                self._stood = int(found[1])
                silent[self._stood] = None
                raise LeftBehind(self._stood, path)


def _counters(tid: int) -> bytes:
    """How much a thread of ours has run, if it is in state D; else empty."""
    try:
        with open(f"/proc/self/task/{tid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/self/task/{tid}/schedstat", "rb") as file:
            return file.read() if fields[0] == b"D" else b""
    except (OSError, IndexError):
        return b""


def _asked(tid: int) -> str:
    """The file that a thread of ours waits for in a system call; empty if unknown."""
    from mpmon.probes.syscalls import SYSCALLS

    try:
        with open(f"/proc/self/task/{tid}/syscall", encoding="ascii") as file:
            number, *arguments = file.read().split()
        name, first, second = SYSCALLS.get(int(number)), int(arguments[0], 16), int(arguments[1], 16)
        if name in BY_DESCRIPTOR:
            return os.readlink(f"/proc/self/fd/{first}")
        return _own_text(first if name in BY_FIRST else second) if name in BY_FIRST | BY_SECOND else ""
    except (OSError, ValueError, IndexError):
        return ""


def _own_text(address: int) -> str:
    """A string in our own memory, read by the kernel, as the thread may return and free it meanwhile."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(LONGEST_PATH).partition(b"\0")[0].decode("utf-8", "replace")
