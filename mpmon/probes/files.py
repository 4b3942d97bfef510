"""Reading below a movable /proc, quickly and in bounds.

The hot loop reads the same few hundred small files each second. Opening costs more than reading (8.8 µs against 4.5 µs for
`stat`), so descriptors are kept and read with `pread`. A kept descriptor of a process that ended fails with ESRCH even if its
pid was reused, so a kept file can never show another process.
"""

from __future__ import annotations

import os
import resource
import time
from functools import lru_cache

from mpmon.probes import standstill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from mpmon.probes.aside.client import Aside

CHUNK = 1 << 16
"""One read, bytes. Files of /proc are cut at this size unless a reader asks for more."""

SHORT = 1 << 12
"""The same for files that are read repeatedly: `stat`, `schedstat`, counters."""

_SCHEDULED = 2
"""CPUCLOCK_SCHED of linux/posix-timers.h, where a process's clock has the number `~pid << 3 | 2`."""

SPARE_DESCRIPTORS = 64
"""Left free for pipes to py-spy, recordings and the terminal."""


class Proc:
    """A /proc tree: the machine's own, or a recorded one in a test."""

    def __init__(self, root: str | Path = "/proc", aside: Aside | None = None) -> None:
        """`aside` makes the calls that may never return; without it they are made directly."""
        self.root = str(root)
        self.aside = aside
        self._kept: dict[str, int] = {}
        self._has_clocks = self.root == "/proc" and _is_told_by_clocks()
        self._has_census = self._has_clocks and _has_own_loadavg()
        self._budget = _raise_descriptor_limit()

    def __reduce__(self) -> tuple[Callable[[str], Proc], tuple[str]]:
        """In the helper, the same tree is a single object that makes calls itself."""
        return _same_tree, (self.root,)

    def path(self, *parts: str | int) -> str:
        """The path of a file below this tree."""
        return "/".join((self.root, *map(str, parts)))

    def read(self, *parts: str | int, limit: int = CHUNK) -> bytes:
        """The file's bytes, at most `limit`.

        Raises:
            OSError: as open(2) and read(2).
        """
        return read(self.path(*parts), limit)

    def text(self, *parts: str | int, limit: int = CHUNK) -> str:
        """As `read`, decoded; bytes that are not UTF-8 become U+FFFD."""
        return self.read(*parts, limit=limit).decode("utf-8", "replace")

    def link(self, *parts: str | int) -> str:
        """Where a link points; bytes that are not UTF-8 become U+FFFD.

        Raises:
            OSError: as readlink(2).
        """
        target = link(self.path(*parts))
        return target if target.isascii() else os.fsencode(target).decode("utf-8", "replace")

    def reread(self, path: str) -> bytes:
        """The bytes of a short file, through a descriptor kept from the last time.

        Raises:
            OSError: as open(2) and pread(2); ESRCH or ENOENT when its process ended.
        """
        if standstill.silent:
            standstill.check(path)
        descriptor = self._kept.get(path)
        if descriptor is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if len(self._kept) >= self._budget:
                try:
                    return os.pread(descriptor, SHORT, 0)
                finally:
                    os.close(descriptor)
            self._kept[path] = descriptor
        return os.pread(descriptor, SHORT, 0)

    def keep(self, name: str, make: Callable[[], int]) -> None:
        """Keep a descriptor of another kind, if the limit allows.

        Raises:
            OSError: it cannot be made.
        """
        if name not in self._kept and len(self._kept) < self._budget:
            self._kept[name] = make()

    def kept(self, name: str) -> int | None:
        """A kept descriptor."""
        return self._kept.get(name)

    def forget(self, path: str) -> None:
        """Close a kept descriptor."""
        descriptor = self._kept.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close every kept descriptor."""
        for path in list(self._kept):
            self.forget(path)

    def clocks(self, pids: Collection[int]) -> list[int | None]:
        """The total run time of each process's threads, nanoseconds; `None` if unavailable. One cheap system call each
        (clock_getcpuclockid(3), which needs no rights). While it is unchanged, no thread has left a CPU; the time of a
        thread that is still running is added at the next tick of the kernel's clock.
        """
        if not self._has_clocks:
            return [None] * len(pids)
        try:
            return list(map(time.clock_gettime_ns, [(~pid << 3) | _SCHEDULED for pid in pids]))
        except OSError:  # one of them is gone
            return [_clock(pid) for pid in pids]

    def census(self) -> bytes | None:
        """The number of threads on the machine, and the last pid given (proc_loadavg(5)); `None` if unavailable.

        While both are unchanged, no process has started or ended.
        """
        try:
            return self.reread("/proc/loadavg").partition(b"/")[2] if self._has_census else None
        except OSError:
            return None

    def names(self, *parts: str | int) -> list[str]:
        """The names in a folder; at the top of the tree, all present pids and files.

        Raises:
            OSError: as opendir(3).
        """
        return os.listdir(self.path(*parts))

    def pids(self) -> list[int]:
        """All present pids."""
        return [int(name) for name in self.names() if name.isdigit()]

    def own_pid(self) -> int | None:
        """The pid of this very process in this tree; `None` if it is not in it.

        The tree may be that of another pid namespace (proc(5)), where os.getpid() may be another process.
        """
        try:
            return int(os.readlink(self.path("self")))
        except (OSError, ValueError):
            return None

    def tids(self, pid: int) -> list[int]:
        """The threads of a process, ascending.

        Raises:
            OSError: the process is gone.
        """
        return sorted(int(name) for name in os.listdir(self.path(pid, "task")) if name.isdigit())


def sleeps_in_kernel(folder: str) -> bool:
    """A thread of the process with this folder in /proc is in state D.

    It may wait for a file system, and meanwhile hold the lock of the process's mappings. Then reading `cmdline`,
    `environ` or memory blocks as well, while `stat` and `wchan` answer.
    """
    try:
        stats = (read(f"{folder}/task/{tid}/stat", SHORT) for tid in os.listdir(f"{folder}/task"))
        return any(stat.rpartition(b")")[2].lstrip()[:1] == b"D" for stat in stats)
    except OSError:
        return False


@lru_cache(maxsize=4)
def _same_tree(root: str) -> Proc:
    return Proc(root)


def read(path: str, limit: int = CHUNK) -> bytes:
    """The file's bytes, at most `limit`.

    Raises:
        OSError: as open(2) and read(2).
    """
    if standstill.silent:
        standstill.check(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read_all(descriptor, limit)
    finally:
        os.close(descriptor)


def link(path: str) -> str:
    """Where a link points.

    Raises:
        OSError: as readlink(2).
    """
    if standstill.silent:
        standstill.check(path)
    return os.readlink(path)


def _clock(pid: int) -> int | None:
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
    except OSError:
        return None


def _is_told_by_clocks() -> bool:
    """The clocks of processes match /proc: a pid means the same in both, and the kernel counts every run.

    A kernel without `schedstat` (gVisor) may count by ticks, and a short run would be missed.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid()) and os.path.exists("/proc/self/schedstat")
    except OSError:
        return False


def _has_own_loadavg() -> bool:
    """The file is the kernel's, not replaced by a container (LXCFS), whose values may be some seconds old."""
    try:
        return os.stat("/proc/loadavg").st_dev == os.stat("/proc").st_dev
    except OSError:
        return False


def _read_all(descriptor: int, limit: int) -> bytes:
    chunks: list[bytes] = []
    left = limit
    while left > 0 and (chunk := os.read(descriptor, min(left, CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; return how many files may be kept open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 16
    wanted = min(wanted, 1 << 16)
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return max(0, min(1 << 16, soft if soft != resource.RLIM_INFINITY else 1 << 16) - SPARE_DESCRIPTORS)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return max(0, soft - SPARE_DESCRIPTORS)
    return wanted - SPARE_DESCRIPTORS
