"""What one process has open and mapped: proc_pid_fd(5), proc_pid_maps(5); each by an identity all processes agree on."""

from __future__ import annotations

import os
import stat as file_mode
from collections.abc import Iterator

from mpmon.model import Handle
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, areas, file_id

MAX_HANDLES = 512
"""Descriptors of one process that are looked at."""


class Holdings:
    """The descriptors and shared mappings of one process, as far as they may be read."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc, self.pid = proc, pid
        self.paths: dict[int, str] = {}
        """Names of files, by descriptor."""
        self.problem = ""
        """Why descriptors are missing; empty where none are."""
        self._names: dict[int, str] = {}
        self._areas: list[Area] | None = None
        self.opened = tuple(self._read())
        """The rows of its descriptors."""

    def name(self, descriptor: int) -> str | None:
        """The object behind a descriptor, `None` if it is closed."""
        return self._names.get(descriptor)

    def semaphore_at(self, address: int) -> str | None:
        """The semaphore at an address in shared memory, `None` where memory is private."""
        area = self._area(address)
        return area.object_at(address) if area and area.inode else None

    def path_at(self, address: int) -> str | None:
        """The file an address in shared memory belongs to."""
        area = self._area(address)
        return area.path if area else None

    def handles(self) -> tuple[Handle, ...]:
        """The descriptors, and the semaphores of sem_open(3) that it maps."""
        semaphores = sorted({area.semaphore for area in self._shared() if area.semaphore})
        return (*self.opened, *(Handle(pid=self.pid, object=name, fd=None) for name in semaphores))

    def _read(self) -> Iterator[Handle]:
        try:
            names = os.listdir(self._proc.path(self.pid, "fd"))
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
        path = self._proc.path(self.pid, "fd", descriptor)
        try:
            target = self._proc.link(self.pid, "fd", descriptor)
            mode = os.lstat(path).st_mode
        except OSError:
            return None
        name = object_name(target, self.pid, descriptor, path)
        self._names[descriptor] = name
        if target.startswith("/"):
            self.paths[descriptor] = target
        # The permission bits of the link tell how the file was opened: proc_pid_fd(5).
        return Handle(
            pid=self.pid, object=name, fd=descriptor, reads=bool(mode & 0o400), writes=bool(mode & 0o200),
            path=self.paths.get(descriptor),
        )  # fmt: skip

    def _area(self, address: int) -> Area | None:
        return next((area for area in self._shared() if area.start <= address < area.end), None)

    def _shared(self) -> list[Area]:
        if self._areas is None:
            try:
                self._areas = [area for area in areas(self._proc, self.pid) if area.is_shared]
            except OSError:
                self._areas = []
        return self._areas


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
    return file_id(info)
