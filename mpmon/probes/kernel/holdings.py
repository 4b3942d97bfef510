"""What one process has open and mapped (proc_pid_fd(5), proc_pid_maps(5)), with ids that are the same in all processes.

A file on a file system with an external server is never touched: the server may be dead, and then any access waits forever.
Its id is made of what the kernel knows: the inode in proc_pid_fdinfo(5), the device of its mount.
"""

from __future__ import annotations

import os
import stat as file_mode
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from mpmon.model import Handle
from mpmon.probes.fdinfo import fdinfo_fields
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, areas, file_id, is_shared
from mpmon.probes.mounts import MountPoint, Mounts, mounts_of
from mpmon.probes.namespaces import Namespace

AT_FDCWD = -100
"""linux/fcntl.h."""


class ServedFile(NamedTuple):
    """An externally served file system, as one process uses it."""

    mount: MountPoint
    asked_by: str
    """A path through which the server can be queried."""


NUMBERED = {
    "anon_inode:[eventfd]": ("eventfd", "eventfd-id"),
    "/dev/ptmx": ("pty", "tty-index"), "/dev/pts/ptmx": ("pty", "tty-index"),
}  # fmt: skip
"""By the target of the link of a descriptor: kind, and the field with the number."""

MAX_HANDLES = 512
"""Most descriptors examined per process."""


class Holdings:
    """The descriptors and shared mappings of one process, as far as they may be read."""

    def __init__(self, proc: Proc, pid: int, *, with_mappings: bool = True) -> None:
        self._proc, self.pid = proc, pid
        self.namespace = Namespace(proc, pid)
        self._with_mappings = with_mappings
        self.paths: dict[int, str] = {}
        """Names of files, by descriptor."""
        self.problem = ""
        """Why descriptors are missing; empty if none are."""
        self.served: dict[int, MountPoint] = {}
        """Externally served mounts of open files, by descriptor."""
        self.used: dict[str, ServedFile] = {}
        """All externally served mounts that the process uses, by device."""
        self._names: dict[int, str] = {}
        self.opened = tuple(self._read())
        """The rows of its descriptors."""

    def name(self, descriptor: int) -> str | None:
        """The object behind a descriptor, `None` if it is closed."""
        return self._names.get(descriptor)

    def semaphore_at(self, address: int) -> str | None:
        """The semaphore at an address in shared memory; `None` if the memory is private."""
        area = self._area(address)
        return area.object_at(address) if area and area.inode else None

    def path_at(self, address: int) -> str | None:
        """The file an address in shared memory belongs to."""
        area = self._area(address)
        return area.path if area else None

    def handles(self) -> tuple[Handle, ...]:
        """The descriptors, and the semaphores of sem_open(3) that the process maps."""
        semaphores = sorted({area.semaphore for area in self._shared if area.semaphore})
        return (*self.opened, *(Handle(pid=self.pid, object=name, fd=None) for name in semaphores))

    def _read(self) -> Iterator[Handle]:
        try:
            names = os.listdir(self._proc.path(self.pid, "fd"))
        except PermissionError:
            self.problem = "open files cannot be read (another user's, or not dumpable)"
            return
        if len(names) > MAX_HANDLES:
            self.problem = f"{len(names)} open files, of which mpmon read the first {MAX_HANDLES}"
        for name in sorted(names, key=int)[:MAX_HANDLES]:
            handle = self._handle(int(name))
            if handle:
                yield handle

    def _handle(self, descriptor: int) -> Handle | None:
        path = self._proc.path(self.pid, "fd", descriptor)
        try:
            target = self._proc.link(self.pid, "fd", descriptor)
            mode = os.lstat(path).st_mode
        except OSError:
            return None
        name = self._numbered(target, descriptor) or object_name(target, self.pid, descriptor)
        name = name or self._file_name(target, descriptor, path)
        self._names[descriptor] = name
        if target.startswith("/"):
            self.paths[descriptor] = target
        # The permission bits of the link show how the file was opened: proc_pid_fd(5).
        return Handle(
            pid=self.pid, object=name, fd=descriptor, reads=bool(mode & 0o400), writes=bool(mode & 0o200),
            path=self.paths.get(descriptor),
        )  # fmt: skip

    def _numbered(self, target: str, descriptor: int) -> str | None:
        """The identity of an object that only its own number in proc_pid_fdinfo(5) tells from others of its kind: an eventfd
        (since Linux 5.2), or the master side of a pseudoterminal. `None` for anything else.
        """
        kind, field = NUMBERED.get(target, ("", ""))
        number = fdinfo_fields(self._proc, self.pid, descriptor).get(field, "") if field else ""
        return f"{kind}:{number}" if number.isdigit() else None

    def _area(self, address: int) -> Area | None:
        return next((area for area in self._shared if area.start <= address < area.end), None)

    @cached_property
    def _shared(self) -> list[Area]:
        return self._areas(is_shared)

    def _areas(self, wanted: Callable[[str], object]) -> list[Area]:
        try:
            return areas(self._proc, self.pid, wanted) if self._with_mappings else []
        except OSError:
            return []

    @cached_property
    def mounts(self) -> Mounts:
        """The mounts visible to the process."""
        return mounts_of(self._proc, self.pid)

    def served_path(self, path: str) -> MountPoint | None:
        """The mount of a path, if it is externally served."""
        mount = self.mounts.of_path(path)
        if mount is None or mount.is_local:
            return None
        self._note_used(mount, self._proc.path(self.pid, "root") + mount.path)
        return mount

    def served_mappings(self) -> Iterator[MountPoint]:
        """The externally served mounts of the files that the process maps."""
        for device in sorted({area.device for area in self._areas(bool) if area.path.startswith("/") and area.inode}):
            mount = self.mounts.by_device(device)
            if mount and not mount.is_local:
                self._note_used(mount, self._proc.path(self.pid, "root") + mount.path)
                yield mount

    def note_mappings(self) -> None:
        """Note the externally served file systems of mapped files as used; most processes see none."""
        if self.mounts.served():
            for _ in self.served_mappings():
                pass

    def served_in_sight(self) -> Iterator[MountPoint]:
        """All externally served mounts visible to the process."""
        for mount in self.mounts.served():
            self._note_used(mount, self._proc.path(self.pid, "root") + mount.path)
            yield mount

    def folder_of(self, descriptor: int) -> str | None:
        """The path of an open folder, or of the current one for AT_FDCWD, by its name in the kernel."""
        try:
            return self._proc.link(self.pid, *(("cwd",) if descriptor == AT_FDCWD else ("fd", descriptor)))
        except OSError:
            return None

    def _note_used(self, mount: MountPoint, asked_by: str) -> None:
        self.used.setdefault(mount.device, ServedFile(mount, asked_by))

    def _file_name(self, target: str, descriptor: int, path: str) -> str:
        fields = fdinfo_fields(self._proc, self.pid, descriptor)
        number, inode = fields.get("mnt_id", ""), fields.get("ino")  # the latter since Linux 5.14
        mount = self.mounts.by_id(int(number)) if number.isdigit() else None
        if mount and not mount.is_local:
            self.served[descriptor] = mount
            self._note_used(mount, path)
            return f"file:{mount.device}:{inode}" if inode else f"file:{target}"
        if mount is None and inode and not _is_memory(target):
            # The mount is of another mount namespace, or was unmounted while the file was open: its server is unknown.
            return f"file:mount {number}:{inode}"
        return file_name(target, path)


def object_name(target: str, pid: int, descriptor: int) -> str | None:
    """The identity of what a descriptor link of proc_pid_fd(5) points to; `None` for a file."""
    kind, _, rest = target.partition(":")
    if kind in ("pipe", "socket"):
        return f"{kind}:{rest.strip('[]')}"
    if kind == "anon_inode":
        word = rest.strip("[]")
        return f"{word}:{pid}:{descriptor}"
    return None


def _is_memory(target: str) -> bool:
    """Whether it belongs to a kernel-internal mount, which no process sees: memfd_create(2), shmget(2)."""
    return target.startswith(("/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage")) and target.endswith(" (deleted)")


def file_name(target: str, path: str) -> str:
    """The identity of a file whose file system responds: `path` is accessed."""
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
    return file_id(info)


def served_folder(proc: Proc, pid: int, folder: str) -> ServedFile | None:
    """A folder as a process names it, if it is on an externally served file system."""
    mount = mounts_of(proc, pid).of_path(os.path.normpath(folder))
    return None if mount is None or mount.is_local else ServedFile(mount, proc.path(pid, "root") + mount.path)
