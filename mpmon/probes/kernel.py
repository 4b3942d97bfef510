"""What each thread is blocked in, from the kernel, without stopping anybody.

proc_pid_syscall(5) gives the call and its arguments, so a futex word, a descriptor, a poll set or a child can be named.
A descriptor becomes an object all processes agree on (a pipe by its inode), and every process that holds an end of it is
listed, because those are the ones who could wake the sleeper.
A futex word in shared memory becomes (device, inode, offset), so the same semaphore is one object in all processes,
although it is unlinked and mapped at different addresses.

Rights: `stat` and `sched` anyone; `wchan`, `fd` and `maps` the same user (PTRACE_MODE_READ); `syscall` and memory the
right to attach (PTRACE_MODE_ATTACH), which Yama 1 grants only to ancestors.
What may not be read is an `Unknown`; the rest still counts.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat as file_mode
import struct
import termios
import threading
from collections.abc import Iterable, Iterator
from functools import cached_property

from mpmon.model import Blocked, Handle, KernelObject, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, areas
from mpmon.probes.memory import Memory
from mpmon.probes.sockets import SocketTable
from mpmon.probes.syscalls import EXITS, POLLS, READS, SLEEPS, SYSCALLS, WRITES

MAX_POLLED = 128
"""Entries of a poll set that are looked at."""

MAX_HANDLES = 512
"""Descriptors of one process that are looked at."""

F_GETPIPE_SZ = 1032
"""fcntl(2), linux/fcntl.h."""

FUTEX_PRIVATE = 128
FUTEX_CLOCK_REALTIME = 256
FUTEX_COMMAND = 0x7F
FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET = 0, 6, 9
"""linux/futex.h."""

TIMER_ABSTIME = 1
POLL_IN = 0x1 | 0x2 | 0x2000
"""POLLIN, POLLPRI, POLLRDHUP of asm-generic/poll.h."""

_EXEC_START = re.compile(rb"^se\.exec_start\s*:\s*([\d.]+)", re.MULTILINE)


class KernelLook:
    """One thorough look at some processes; the tables are filled by `look`."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._now = now
        self._clocks = _Clocks(proc, now)
        self._sockets = SocketTable(proc, now)
        self.blocked: dict[int, tuple[Blocked, ...]] = {}
        self.handles: dict[int, tuple[Handle, ...]] = {}
        self.objects: dict[str, KernelObject] = {}
        self.locked: dict[int, tuple[str, ...]] = {}
        """Ids of the files a process has open on which somebody has a lock."""
        self.unknowns: dict[int, Unknown] = {}

    def look(self, pids: Iterable[int]) -> None:
        """Fill the tables for these processes; one that vanishes meanwhile leaves no rows."""
        for pid in pids:
            try:
                self._look_at(pid)
            except ProcessLookupError:
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason="ended", gone=True)
            except FileNotFoundError:
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason="ended", gone=True)
            except OSError as problem:
                reason = problem.strerror or "unreadable"
                self.unknowns[pid] = Unknown(table="blocked", pid=pid, reason=reason.lower())

    def _look_at(self, pid: int) -> None:
        ends = _Ends(self._proc, pid)
        if ends.problem:
            self.unknowns[pid] = Unknown(table="handles", pid=pid, reason=ends.problem)
        try:
            memory = Memory(self._proc, pid)
        except (PermissionError, FileNotFoundError):
            self.blocked[pid] = tuple(self._thread(pid, tid, ends, None) for tid in self._proc.tids(pid))
        else:
            with memory:
                self.blocked[pid] = tuple(self._thread(pid, tid, ends, memory) for tid in self._proc.tids(pid))
        shared = [Handle(pid=pid, object=name, fd=None) for name in sorted(ends.shared_semaphores())]
        self.handles[pid] = (*ends.handles, *shared)
        self._note_locked(pid, ends)

    def _note_locked(self, pid: int, ends: _Ends) -> None:
        """Who polls for a lock waits for it too, and no system call tells."""
        locked = [row for row in ends.handles if row.object in self._file_locks]
        for row in locked:
            holders = self._file_locks[row.object]
            self.objects.setdefault(
                row.object, KernelObject(id=row.object, kind="file lock", path=row.path, holders=holders)
            )
        self.locked[pid] = tuple(row.object for row in locked)

    def _thread(self, pid: int, tid: int, ends: _Ends, memory: Memory | None) -> Blocked:
        stat = self._proc.read(pid, "task", tid, "stat")
        state = stat[stat.rindex(b")") + 2 :][:1].decode()
        name, args = self._syscall(pid, tid)
        call = _Call(name, args, memory)
        ran_at = self._clocks.ran_at(pid, tid)
        timeout = call.timeout()
        found = list(self._waited(pid, call, ends)) if state in "SD" else []
        for item in found:
            self.objects[item.id] = item
        return Blocked(
            pid=pid, tid=tid, state=state, syscall=name, args=args, wchan=self._wchan(pid, tid),
            ran_at=ran_at, timeout_s=timeout, wakes_at=self._clocks.wakes_at(call, ran_at),
            waits_on=tuple(item.id for item in found), writes=call.writes(),
        )  # fmt: skip

    def _syscall(self, pid: int, tid: int) -> tuple[str | None, tuple[int, ...]]:
        try:
            fields = self._proc.text(pid, "task", tid, "syscall").split()
        except OSError as problem:
            if isinstance(problem, PermissionError):
                self.unknowns.setdefault(
                    pid, Unknown(table="blocked", pid=pid, reason="the system call may not be read (ptrace right)")
                )
            return None, ()
        if not fields or fields[0] == "running":
            return "running", ()
        number = int(fields[0])
        args = tuple(int(field, 16) for field in fields[1:])
        if number < 0:
            return None, args
        return SYSCALLS.get(number, f"syscall {number}"), args

    def _wchan(self, pid: int, tid: int) -> str | None:
        try:
            text = self._proc.text(pid, "task", tid, "wchan")
        except OSError:
            return None
        # "0" means running, or not allowed to know.
        return text if text not in ("", "0") else None

    def _waited(self, pid: int, call: _Call, ends: _Ends) -> Iterator[KernelObject]:
        if call.name == "futex":
            yield from self._futex(pid, call, ends)
        elif call.name in EXITS:
            yield from _children(call)
        elif call.name in READS or call.name in WRITES:
            yield from self._described(pid, ends, call.descriptor())
        elif call.name in POLLS:
            for descriptor in call.polled(self._proc, pid):
                yield from self._described(pid, ends, descriptor)
        elif call.name in ("flock", "fcntl"):
            yield from self._locked_file(pid, ends, call.descriptor())
        elif call.name in ("fsync", "fdatasync"):
            yield from self._described(pid, ends, call.descriptor())

    def _described(self, pid: int, ends: _Ends, descriptor: int) -> Iterator[KernelObject]:
        name = ends.name(descriptor)
        if name is None:
            return
        kind = name.partition(":")[0]
        if kind == "pipe":
            # A FIFO with a name is not opened: somebody may be waiting in open(2) for just such a reader.
            fill, capacity = (None, None) if descriptor in ends.paths else self._pipe_fill(pid, descriptor)
            yield KernelObject(id=name, kind=kind, fill=fill, capacity=capacity)
        elif kind == "socket":
            yield self._sockets.describe(pid, name)
        elif kind == "process":
            yield KernelObject(id=name, kind="process")
        elif name.endswith("/ptmx"):
            yield from _pseudoterminal(self._proc, pid, descriptor)
        elif kind == "pidfd":
            yield from _pidfd(self._proc, pid, descriptor, name)
        else:
            yield KernelObject(id=name, kind=kind, path=ends.paths.get(descriptor))

    def _pipe_fill(self, pid: int, descriptor: int) -> tuple[int | None, int | None]:
        """Unread bytes and capacity.

        The pipe is opened for reading for some microseconds, so a writer whose last reader leaves in that moment would
        learn of it late; nothing is read and nobody is woken.
        """
        path = self._proc.path(pid, "fd", descriptor)
        try:
            opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None, None
        try:
            if not file_mode.S_ISFIFO(os.fstat(opened).st_mode):
                return None, None
            unread = fcntl.ioctl(opened, termios.FIONREAD, b"\0" * 4)
            return struct.unpack("i", unread)[0], fcntl.fcntl(opened, F_GETPIPE_SZ)
        except OSError:
            return None, None
        finally:
            os.close(opened)

    def _futex(self, pid: int, call: _Call, ends: _Ends) -> Iterator[KernelObject]:
        address, operation = call.args[0], call.args[1]
        if not operation & FUTEX_PRIVATE and (name := ends.shared_name(address)):
            words = call.words("II", address)
            value, waiters = words or (None, None)
            yield KernelObject(id=name, kind="semaphore", path=ends.shared_path(address), value=value, waiters=waiters)
            return
        owner = _mutex_owner(call)
        yield KernelObject(id=f"futex:{pid}:{address:#x}", kind="mutex" if owner else "futex", owner_tid=owner)

    def _locked_file(self, pid: int, ends: _Ends, descriptor: int) -> Iterator[KernelObject]:
        try:
            info = os.stat(self._proc.path(pid, "fd", descriptor))
        except OSError:
            return
        device = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}"
        name = f"file:{device}:{info.st_ino}"
        yield KernelObject(
            id=name, kind="file lock", path=ends.paths.get(descriptor), holders=self._file_locks.get(name, ())
        )

    @cached_property
    def _file_locks(self) -> dict[str, tuple[int, ...]]:
        return file_locks(self._proc)


class _Call:
    """One system call with its arguments."""

    def __init__(self, name: str | None, args: tuple[int, ...], memory: Memory | None) -> None:
        self.name = name
        self.args = args
        self._memory = memory

    def words(self, layout: str, address: int) -> tuple[int, ...] | None:
        return self._memory.unpack(layout, address) if self._memory else None

    def descriptor(self) -> int:
        return _signed(self.args[0])

    def writes(self) -> bool:
        return self.name in WRITES

    def timeout(self) -> float | None:
        """How long the call waits at most, seconds; `None` for ever or unknown."""
        if self.name in ("poll", "epoll_wait", "epoll_pwait"):
            position = 2 if self.name == "poll" else 3
            milliseconds = _signed(self.args[position])
            return milliseconds / 1000 if milliseconds >= 0 else None
        if self.name in ("ppoll", "pselect6"):
            return self._timespec(self.args[2 if self.name == "ppoll" else 4])
        if self.name == "select":
            moment = self.words("qq", self.args[4]) if self.args[4] else None
            return moment[0] + moment[1] / 1e6 if moment else None
        if self.name == "futex" and self.args[1] & FUTEX_COMMAND == FUTEX_WAIT:
            return self._timespec(self.args[3])
        return None

    def deadline(self) -> tuple[int, float] | None:
        """(clock id, moment on that clock) for calls with an absolute time."""
        if self.name == "clock_nanosleep" and self.args[1] & TIMER_ABSTIME:
            moment = self._timespec(self.args[2])
            return None if moment is None else (_signed(self.args[0]), moment)
        if self.name == "futex" and self.args[1] & FUTEX_COMMAND == FUTEX_WAIT_BITSET and self.args[3]:
            moment = self._timespec(self.args[3])
            clock = 0 if self.args[1] & FUTEX_CLOCK_REALTIME else 1
            return None if moment is None else (clock, moment)
        return None

    def pause(self) -> float | None:
        """Length of a relative sleep, seconds."""
        if self.name == "nanosleep":
            return self._timespec(self.args[0])
        if self.name == "clock_nanosleep" and not self.args[1] & TIMER_ABSTIME:
            return self._timespec(self.args[2])
        if self.name in ("select", "pselect6") and self.args[0] == 0:
            return self.timeout()
        return None

    def _timespec(self, address: int) -> float | None:
        moment = self.words("qq", address) if address else None
        return moment[0] + moment[1] / 1e9 if moment else None

    def polled(self, proc: Proc, pid: int) -> Iterator[int]:
        """The descriptors of a poll, select or epoll set."""
        if self.name in ("poll", "ppoll"):
            yield from self._poll_set()
        elif self.name in ("select", "pselect6"):
            yield from self._select_set()
        else:
            yield from _epoll_set(proc, pid, self.descriptor())

    def _poll_set(self) -> Iterator[int]:
        for index in range(min(self.args[1], MAX_POLLED)):
            entry = self.words("ihh", self.args[0] + 8 * index)
            if entry and entry[0] >= 0:
                yield entry[0]

    def _select_set(self) -> Iterator[int]:
        highest = min(self.args[0], 1024)
        for address in self.args[1:4]:
            bits = (
                self._memory.read(address, (highest + 63) // 64 * 8) if address and highest and self._memory else None
            )
            for descriptor in range(highest if bits else 0):
                if bits and bits[descriptor // 8] >> descriptor % 8 & 1:
                    yield descriptor


class _Ends:
    """The descriptors and shared mappings of one process."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc, self._pid = proc, pid
        self.paths: dict[int, str] = {}
        self.problem = ""
        self._names: dict[int, str] = {}
        self._areas: list[Area] | None = None
        self.handles = tuple(self._read())

    def name(self, descriptor: int) -> str | None:
        """The object behind a descriptor, `None` if it is closed."""
        return self._names.get(descriptor)

    def shared_name(self, address: int) -> str | None:
        """The semaphore at an address in shared memory, `None` where memory is private."""
        area = self._area(address)
        return area.object_at(address) if area and area.inode else None

    def shared_path(self, address: int) -> str | None:
        """The file an address in shared memory belongs to."""
        area = self._area(address)
        return area.path if area else None

    def shared_semaphores(self) -> set[str]:
        """Semaphores of sem_open(3) that this process maps."""
        return {area.semaphore for area in self._shared() if area.semaphore}

    def _read(self) -> Iterator[Handle]:
        try:
            names = os.listdir(self._proc.path(self._pid, "fd"))
        except PermissionError:
            self.problem = "open files may not be read (another user's, or not dumpable)"
            return
        if len(names) > MAX_HANDLES:
            self.problem = f"{len(names)} open files, looked at the first {MAX_HANDLES}"
        for name in sorted(names, key=int)[:MAX_HANDLES]:
            handle = self._handle(int(name))
            if handle:
                yield handle

    def _handle(self, descriptor: int) -> Handle | None:
        path = self._proc.path(self._pid, "fd", descriptor)
        try:
            target = self._proc.link(self._pid, "fd", descriptor)
            mode = os.lstat(path).st_mode
        except OSError:
            return None
        name = object_name(target, self._pid, descriptor, path)
        self._names[descriptor] = name
        if target.startswith("/"):
            self.paths[descriptor] = target
        # The permission bits of the link tell how the file was opened: proc_pid_fd(5).
        return Handle(
            pid=self._pid, object=name, fd=descriptor, reads=bool(mode & 0o400), writes=bool(mode & 0o200),
            path=self.paths.get(descriptor),
        )  # fmt: skip

    def _area(self, address: int) -> Area | None:
        return next((area for area in self._shared() if area.start <= address < area.end), None)

    def _shared(self) -> list[Area]:
        if self._areas is None:
            try:
                self._areas = [area for area in areas(self._proc, self._pid) if area.is_shared]
            except OSError:
                self._areas = []
        return self._areas


class _Clocks:
    """Kernel times to seconds since the epoch."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._now = now
        self._own = self._exec_start(os.getpid(), threading.get_native_id())

    def ran_at(self, pid: int, tid: int) -> float | None:
        """When the thread last ran: its `se.exec_start` against our own, which is now (error up to 0.2 s)."""
        last = self._exec_start(pid, tid)
        if last is None or self._own is None:
            return None
        return self._now - max(0.0, self._own - last) / 1e3

    def wakes_at(self, call: _Call, ran_at: float | None) -> float | None:
        """When a sleep, or a wait for a lock with a time limit, ends by itself."""
        if call.name not in SLEEPS and call.name not in ("select", "pselect6", "futex"):
            return None
        if deadline := call.deadline():
            clock, moment = deadline
            return self._now + moment - _clock_now(clock)
        pause = call.pause()
        return None if pause is None else (ran_at or self._now) + pause

    def _exec_start(self, pid: int, tid: int) -> float | None:
        try:
            match = _EXEC_START.search(self._proc.read(pid, "task", tid, "sched"))
        except OSError:
            return None
        # The scheduler sets it to 0 where it moves a task that sleeps to another CPU: when it ran is not known then.
        return (float(match[1]) or None) if match else None


def object_name(target: str, pid: int, descriptor: int, path: str) -> str:
    """The identity of what a descriptor link of proc_pid_fd(5) points to."""
    kind, _, rest = target.partition(":")
    if kind in ("pipe", "socket"):
        return f"{kind}:{rest.strip('[]')}"
    if kind == "anon_inode":
        word = rest.strip("[]")
        return f"{word}:{pid}:{descriptor}"
    return _file_name(target, path)


def _file_name(target: str, path: str) -> str:
    try:
        info = os.stat(path)
    except OSError:
        return f"file:{target}"
    mode = info.st_mode
    if file_mode.S_ISCHR(mode):
        kind = "terminal" if target.startswith(("/dev/pts/", "/dev/tty", "/dev/console")) else "device"
        return f"{kind}:{target}"
    if file_mode.S_ISFIFO(mode):
        return f"pipe:{info.st_ino}"
    return f"file:{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"


def file_locks(proc: Proc) -> dict[str, tuple[int, ...]]:
    """Holders of file locks, by object id: proc_locks(5)."""
    holders: dict[str, tuple[int, ...]] = {}
    try:
        lines = proc.text("locks", limit=1 << 20).splitlines()
    except OSError:
        return holders
    for line in lines:
        fields = line.split()
        # A line with "->" waits for the lock named before it.
        if len(fields) < 6 or fields[1] == "->":
            continue
        name = "file:" + fields[5]
        holders[name] = (*holders.get(name, ()), int(fields[4]))
    return holders


def _children(call: _Call) -> Iterator[KernelObject]:
    """wait4(pid) and waitid(P_PID, pid); a pid of -1 or 0 waits for any child."""
    number = _signed(call.args[0]) if call.name == "wait4" else _signed(call.args[1])
    any_child = number <= 0 or (call.name == "waitid" and call.args[0] == 0)
    yield KernelObject(id="process:any" if any_child else f"process:{number}", kind="process")


def _pidfd(proc: Proc, pid: int, descriptor: int, name: str) -> Iterator[KernelObject]:
    target = _fdinfo(proc, pid, descriptor).get("Pid", "")
    yield KernelObject(id=f"process:{target}" if target.lstrip("-").isdigit() else name, kind="process")


def _pseudoterminal(proc: Proc, pid: int, descriptor: int) -> Iterator[KernelObject]:
    """The master side of pty(7): what programs at the other side of it print."""
    number = _fdinfo(proc, pid, descriptor).get("tty-index", "")
    if number.isdigit():
        path = f"/dev/pts/{number}"
        yield KernelObject(id=f"pty:{number}", kind="pty", path=path, peer=f"terminal:{path}")


def _epoll_set(proc: Proc, pid: int, descriptor: int) -> Iterator[int]:
    try:
        lines = proc.text(pid, "fdinfo", descriptor).splitlines()
    except OSError:
        return
    for line in lines[:MAX_POLLED]:
        if line.startswith("tfd:"):
            yield int(line.split()[1])


def _fdinfo(proc: Proc, pid: int, descriptor: int) -> dict[str, str]:
    try:
        lines = proc.text(pid, "fdinfo", descriptor).splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _mutex_owner(call: _Call) -> int | None:
    """Owner of a contended pthread mutex.

    glibc waits with FUTEX_WAIT on the mutex's lock word while it reads 2 (lowlevellock.h), and keeps the owner's tid in
    the third word of `struct __pthread_mutex_s` (struct_mutex.h).
    """
    operation = call.args[1] & FUTEX_COMMAND
    if operation not in (FUTEX_WAIT, FUTEX_WAIT_BITSET) or call.args[2] != 2:
        return None
    words = call.words("IIi", call.args[0])
    return words[2] if words and words[0] == 2 and words[2] > 0 else None


def _clock_now(clock: int) -> float:
    """A clock by its number in linux/time.h; time namespaces of a container are not corrected."""
    import time

    return time.clock_gettime(clock)


def _signed(register: int) -> int:
    """A register that holds a C int."""
    return struct.unpack("=i", struct.pack("=I", register & 0xFFFFFFFF))[0]
