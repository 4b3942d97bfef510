"""The objects that a system call waits on, each with its state: a pipe's fill, a semaphore's value, a lock's owner."""

from __future__ import annotations

import fcntl
import os
import stat as file_mode
import struct
import termios
from collections.abc import Iterator, Mapping
from functools import cached_property

from mpmon.model import KernelObject
from mpmon.probes.fdinfo import fdinfo_fields
from mpmon.probes.file_locks import Taken, file_locks
from mpmon.probes.files import Proc
from mpmon.probes.kernel.call import FUTEX_COMMAND, FUTEX_WAIT, FUTEX_WAIT_BITSET, Call, signed
from mpmon.probes.kernel.holdings import AT_FDCWD, Holdings
from mpmon.probes.mounts import MountPoint
from mpmon.probes.sockets import SocketTable
from mpmon.probes.syscalls import EXITS, FILE_CALLS, PATH_CALLS, POLLS, READS, STARTS, WRITES

F_GETPIPE_SZ = 1032
"""fcntl(2), linux/fcntl.h."""

CLONE_VFORK = 0x4000
"""linux/sched.h: the caller waits until the child has executed a program."""

FUTEX_PRIVATE = 128
"""linux/futex.h: the word is in private memory."""


class WaitedObjects:
    """Describes objects at one moment, for any number of calls."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._sockets = SocketTable(proc, now)

    @cached_property
    def file_locks(self) -> dict[str, Taken]:
        """The processes that took the locks of files, by the file's id."""
        return file_locks(self._proc)

    def of(self, tid: int, call: Call, holdings: Holdings) -> Iterator[KernelObject]:
        """What a call of a thread waits on; any one of them may end it."""
        if call.name == "futex":
            yield from _futex(call, holdings)
        elif call.name in EXITS:
            yield from _children(call, holdings)
        elif call.name in STARTS:
            yield from _started(tid, call, holdings)
        elif call.name in READS or call.name in WRITES or call.name in ("fsync", "fdatasync"):
            yield from self._described(call.descriptor(), holdings)
        elif call.name in POLLS:
            for descriptor in call.polled(self._proc, holdings.pid):
                yield from self._described(descriptor, holdings)
        elif call.name in ("flock", "fcntl"):
            yield from self._locked_file(call.descriptor(), holdings)
        elif call.name in FILE_CALLS:
            if mount := holdings.served.get(signed(call.args[FILE_CALLS[call.name]])):
                yield _mount(mount)
        elif call.name in PATH_CALLS:
            yield from _mount_of_path(call, holdings)

    def _described(self, descriptor: int, holdings: Holdings) -> Iterator[KernelObject]:
        pid, name = holdings.pid, holdings.name(descriptor)
        if name is None:
            return
        kind = name.partition(":")[0]
        if kind == "pipe":
            # A named FIFO is not opened: a process may be waiting in open(2) for just such a reader.
            fill, capacity = (
                (None, None) if descriptor in holdings.paths else _pipe_fill(self._proc.path(pid, "fd", descriptor))
            )
            yield KernelObject(id=name, kind=kind, fill=fill, capacity=capacity)
        elif kind == "socket":
            yield self._sockets.describe(pid, name)
        elif kind == "process":
            yield KernelObject(id=name, kind="process")
        elif kind == "pty":
            # The master side of pty(7): the output of programs on the other side.
            path = f"/dev/pts/{name.partition(':')[2]}"
            yield KernelObject(id=name, kind=kind, path=path, peer=f"terminal:{path}")
        elif kind == "eventfd":
            count = fdinfo_fields(self._proc, pid, descriptor).get("eventfd-count", "")
            yield KernelObject(id=name, kind=kind, fill=int(count, 16) if count else None)
        elif kind == "pidfd":
            yield from _pidfd(self._proc, pid, descriptor, name)
        else:
            yield KernelObject(id=name, kind=kind, path=holdings.paths.get(descriptor))
            if mount := holdings.served.get(descriptor):
                yield _mount(mount)

    def _locked_file(self, descriptor: int, holdings: Holdings) -> Iterator[KernelObject]:
        name = holdings.name(descriptor)
        if name is None or descriptor not in holdings.paths:
            return
        if mount := holdings.served.get(descriptor):
            yield _mount(mount)
        yield locked_file(name, holdings.paths.get(descriptor), self.file_locks)


def locked_file(name: str, path: str | None, locks: Mapping[str, Taken]) -> KernelObject:
    """A file that some process has locked, or wants to lock."""
    taken = locks.get(name, Taken())
    return KernelObject(id=name, kind="file lock", path=path, holders=taken.holders, sharers=taken.sharers)


def served_mounts(holdings: Holdings, *, mapped: bool) -> Iterator[KernelObject]:
    """What a thread may wait on if its call names no file: any externally served file system.

    A thread asleep in the kernel outside a system call waits for a page of a file that it maps (`mapped`).
    """
    yield from map(_mount, holdings.served_mappings() if mapped else holdings.served_in_sight())


def _mount_of_path(call: Call, holdings: Holdings) -> Iterator[KernelObject]:
    """The mount of a path in the caller's memory, by its text alone."""
    folder_at, path_at = PATH_CALLS[call.name or ""]
    path = call.path(path_at)
    if not path:
        return
    if not path.startswith("/"):
        folder = holdings.folder_of(AT_FDCWD if folder_at is None else signed(call.args[folder_at]))
        path = f"{folder}/{path}"
    if mount := holdings.served_path(os.path.normpath(path)):
        yield _mount(mount)


def _mount(mount: MountPoint) -> KernelObject:
    return KernelObject(id=f"mount:{mount.device}", kind="mount", path=mount.path)


def _pipe_fill(path: str) -> tuple[int | None, int | None]:
    """Unread bytes of a pipe, and its capacity in bytes.

    The pipe is open for reading for some microseconds, so a writer whose last reader closes it in that moment would
    notice that late; nothing is read and no thread is woken.
    """
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


def _futex(call: Call, holdings: Holdings) -> Iterator[KernelObject]:
    """A semaphore, or a mutex between processes, if the futex word is in shared memory; else a lock of the process."""
    address, operation = call.args[0], call.args[1]
    told = _mutex_owner(call)
    owner = None if told is None else holdings.namespace.anyone(told)
    if not operation & FUTEX_PRIVATE and (name := holdings.semaphore_at(address)):
        value, waiters = call.words("II", address) or (None, None)
        path = holdings.path_at(address)
        yield KernelObject(
            id=name, kind="semaphore", path=path, value=value, waiters=None if told else waiters, owner_tid=owner
        )
        return
    yield KernelObject(id=f"futex:{holdings.pid}:{address:#x}", kind="mutex" if told else "futex", owner_tid=owner)


def _children(call: Call, holdings: Holdings) -> Iterator[KernelObject]:
    """wait4(pid) and waitid(P_PID, pid); a pid of -1 or 0 waits for any child."""
    number = signed(call.args[0]) if call.name == "wait4" else signed(call.args[1])
    if number <= 0 or (call.name == "waitid" and call.args[0] == 0):
        yield KernelObject(id="process:any", kind="process")
    elif (child := holdings.namespace.child(number)) is not None:
        yield KernelObject(id=f"process:{child}", kind="process")


def _started(tid: int, call: Call, holdings: Holdings) -> Iterator[KernelObject]:
    """The child of vfork(2), which borrows the caller's memory until it executes another program or ends: the last one
    that this thread started, as it can start no other meanwhile.
    """
    flags = call.words("Q", call.args[0]) or (0,) if call.name == "clone3" else call.args[:1]
    if call.name != "vfork" and not flags[0] & CLONE_VFORK:
        return
    if children := holdings.namespace.children_of(tid):
        yield KernelObject(id=f"process:{children[-1]}", kind="process")


def _pidfd(proc: Proc, pid: int, descriptor: int, name: str) -> Iterator[KernelObject]:
    target = fdinfo_fields(proc, pid, descriptor).get("Pid", "")
    yield KernelObject(id=f"process:{target}" if target.lstrip("-").isdigit() else name, kind="process")


def _mutex_owner(call: Call) -> int | None:
    """Owner of a contended pthread mutex.

    glibc waits with FUTEX_WAIT on the mutex's lock word while it reads 2 (lowlevellock.h), and keeps the owner's tid and the
    kind in the third and fifth word of `struct __pthread_mutex_s` (struct_mutex.h).
    """
    operation = call.args[1] & FUTEX_COMMAND
    if operation not in (FUTEX_WAIT, FUTEX_WAIT_BITSET) or call.args[2] != 2:
        return None
    words = call.words("IIiII", call.args[0])
    if words is None or words[0] != 2 or words[2] <= 0 or words[4] & ~MUTEX_KINDS:
        return None
    private = bool(call.args[1] & FUTEX_PRIVATE)
    return words[2] if private != bool(words[4] & MUTEX_SHARED) else None


MUTEX_SHARED, MUTEX_KINDS = 128, 3 | 128 | 256 | 512
"""Of a mutex's kind (pthreadP.h): between processes; that, the four types, and the two flags of lock elision."""
