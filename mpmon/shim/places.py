"""Locations, names and owners of the shim's files."""

from __future__ import annotations

import os
from errno import ENOENT, EPERM
from stat import S_ISLNK, S_IWGRP, S_IWOTH

VARIABLE = "MPMON_RUN_DIR"
"""Environment variable that names the folder, and turns the start-up hook on."""

RECORDS, STACKS = ".mpmon", ".stacks"
"""Endings of the files: what the hooks record; what `mpmon.shim.dumps` wrote last."""

MANY, ENOUGH = 128, 64
"""With more files than the first number in a folder, those of dead processes are removed until the second number is left.

A DataLoader starts new workers each epoch, and /dev/shm of a container has 64 MiB.
"""

STAT_LIMIT = 4096


def default_folders(uid: int, runtime_folder: str | None) -> tuple[str, ...]:
    """Folders for a user's files if `MPMON_RUN_DIR` is not set: the first usable one."""
    own = f"/dev/shm/mpmon-{uid}"
    return (os.path.join(runtime_folder, "mpmon"), own) if runtime_folder else (own,)


def run_folder(named: str | None = None) -> str:
    """The folder for this process, created if missing; `named` overrides its environment.

    Raises:
        OSError: as `open_folder`.
    """
    path, descriptor = open_folder(named)
    os.close(descriptor)
    return path


def open_folder(named: str | None = None) -> tuple[str, int]:
    """The same with a descriptor: files created relative to it cannot be redirected.

    Raises:
        OSError: it cannot be created, belongs to another user, or others may write to it.
    """
    named = named or os.environ.get(VARIABLE)
    candidates = (named,) if named else default_folders(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))
    for folder in candidates:
        try:
            return folder, _open_own(folder, with_parents=bool(named))
        except OSError:
            if folder == candidates[-1]:
                raise
    raise FileNotFoundError(VARIABLE)


def _open_own(folder: str, *, with_parents: bool) -> int:
    """Parent folders are created only if the user named the folder: a system without /dev/shm does not get one."""
    parent = os.path.dirname(folder)
    if not with_parents and not os.path.isdir(parent):
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), parent)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # Others may write to /dev/shm: a folder or link that another user has prepared there is not trusted.
    status = os.lstat(folder)
    if S_ISLNK(status.st_mode):
        _check_owner(status, folder, (os.geteuid(), 0))
        folder = os.path.realpath(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_own(os.fstat(descriptor), folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_own(status: os.stat_result, folder: str) -> None:
    _check_owner(status, folder, (os.geteuid(),))
    if status.st_mode & (S_IWGRP | S_IWOTH):
        raise PermissionError(EPERM, "may be written by others too (chmod go-w)", folder)


def _check_owner(status: os.stat_result, path: str, users: tuple[int, ...]) -> None:
    if status.st_uid not in users:
        # User names are not looked up: a directory service may be slow.
        raise PermissionError(EPERM, f"belongs to another user (uid {status.st_uid})", path)


def make_file(file: str, folder: int, flags: int) -> int:
    """A descriptor of a new file in an open folder; no other process has it.

    An existing file of that name was this process's before it executed another program (execve(2)); it is removed.

    Raises:
        OSError: as unlink(2) and open(2).
    """
    remove(file, folder)
    return os.open(file, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)


class Name:
    """`PID.START.NAMESPACE` and an ending: pid, start in clock ticks since boot, inode of the pid namespace."""

    __slots__ = ("namespace", "pid", "start_ticks")

    def __init__(self, pid: int, start_ticks: int, namespace: int) -> None:
        self.pid, self.start_ticks, self.namespace = pid, start_ticks, namespace

    def file(self, ending: str = RECORDS) -> str:
        """The name of one of its files."""
        return f"{self.pid}.{self.start_ticks}.{self.namespace}{ending}"

    @classmethod
    def parse(cls, file: str, *endings: str) -> Name | None:
        """The parts of a file's name, `None` for one without such an ending."""
        stem, dot, ending = file.rpartition(".")
        parts = stem.split(".") if dot + ending in endings else []
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 20 for part in parts):
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]))

    @classmethod
    def own(cls) -> Name:
        """The name for this process."""
        return cls(os.getpid(), start_ticks("self") or 0, own_namespace())

    def is_dead(self) -> bool:
        """Whether its process is known to have ended; in another pid namespace it is not known."""
        return self.namespace == own_namespace() and start_ticks(self.pid) != self.start_ticks


def own_namespace() -> int:
    """Inode of the pid namespace of this process."""
    return os.stat("/proc/self/ns/pid").st_ino


def start_ticks(pid: int | str) -> int | None:
    """When a process began, field 22 of proc_pid_stat(5); `None` when it has ended, also while it is a zombie."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fields = os.read(descriptor, STAT_LIMIT).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return int(fields[19]) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def thin_out(folder: int) -> None:
    """Remove the oldest files of dead processes from an open folder, if there are too many."""
    files = [(name, file) for file in os.listdir(folder) if (name := Name.parse(file, RECORDS, STACKS))]
    spare = len(files) - ENOUGH
    if len(files) <= MANY:
        return
    files.sort(key=lambda found: found[0].start_ticks)
    for name, file in files[:MANY]:
        if spare > 0 and name.is_dead():
            remove(file, folder)
            spare -= 1


def remove(file: str, folder: int) -> None:
    """Remove it, if possible."""
    try:
        os.unlink(file, dir_fd=folder)
    except OSError:
        return
