"""The only access to untrusted files: whatever a job, or another user, may have put where mpmon reads.

Such a path may lead anywhere: to a named pipe without a writer, to a device with side effects on open, to a file of the host
instead of the container's, to records forged by another user.  So nothing here trusts a path.  It is looked up without being
opened (`O_PATH`), what was found is looked at, and only that very thing is opened, for reading, without waiting for anybody.

Even opening can do harm: a file with a lease on it (fcntl(2), F_SETLEASE) sends its holder SIGIO, which ends a process that
does not expect it.  Looking up a file does not, and /proc/locks lists the leases; a file that has one is not opened.  A lease
that is taken between the two looks, some tens of microseconds, longer where the machine has thousands of locks, is still
broken, and so is one that /proc/locks does not show here: of a process of another pid namespace, or beyond its first MiB.

A path as a process sees it is looked up below `/proc/PID/root`, and no link leads out of there: openat2(2) with
`RESOLVE_IN_ROOT`, since Linux 5.6.  Where the kernel is older, or a sandbox forbids the call, such a path is walked part by
part, and one with a link in it is refused.

If the author matters, the file must belong to one of the allowed users, and no other user may be able to write to it.

A file system that does not answer blocks callers here too: this module has no time limit. The kernel's own files, in /proc
and /sys, are read by `mpmon.probes.files`.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from mpmon.probes.file_locks import Leases
from mpmon.probes.files import Proc
from mpmon.probes.libc import OPENAT2, call
from mpmon.probes.users import name_of

MOST_NAMES = 1 << 16
"""Limit of names read from one folder."""

OWN_ROOT = "/"
"""The root as mpmon sees it."""

_ROOT = 0
"""The user whose files are always trusted."""

_FINDING = os.O_PATH | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_HOW = struct.Struct("=QQQ")
"""`struct open_how` of linux/openat2.h: flags, mode, resolve."""
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


_leases = Leases(Proc())


class Refused(OSError):
    """It exists but is not what was expected; `strerror` says so, as the rest of a sentence about its name."""


class Place(NamedTuple):
    """A path, and the folder that it cannot leave."""

    path: str
    root: str | int = OWN_ROOT
    """That folder, or a descriptor of it while it is open; mpmon's own root by default."""

    def __str__(self) -> str:
        """As a path for people, and to tell places apart."""
        return self.path if self.root == OWN_ROOT or isinstance(self.root, int) else f"{self.root}{self.path}"

    def below(self, name: str) -> Place:
        """A file in this folder."""
        return Place(f"{self.path}/{name}", self.root)


@dataclass(frozen=True)
class Expected:
    """What must be there: `FILE` or `FOLDER`, and which users may write to it."""

    kind: int
    owners: tuple[int, ...] = ()
    """It must belong to one of these users; then no other user may write to it, and a file must have a single hard link.
    Empty if any owner is allowed.
    """

    def by(self, *users: int) -> Expected:
        """The same, written by one of these users, or by root."""
        return replace(self, owners=(*users, _ROOT))


FILE, FOLDER, PIPE = Expected(stat.S_IFREG), Expected(stat.S_IFDIR), Expected(stat.S_IFIFO)


def seen_by(proc: Proc, pid: int, path: str) -> Place:
    """An absolute path as a process sees it: in its container, or below its chroot."""
    return Place(path, proc.path(pid, "root"))


@contextmanager
def opened(place: Place, expected: Expected) -> Generator[int]:
    """A descriptor, for the length of a `with` block: a file to read from, or a folder for its names and contents.

    Raises:
        Refused: it is something else, belongs to another user, or another process has a lease on it.
        OSError: as openat2(2) and open(2).
    """
    descriptor = take(place, expected)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take(place: Place, expected: Expected) -> int:
    """The same, to be closed by the caller.

    Raises:
        OSError: as `opened`.
    """
    return _take(place, expected, os.O_NOFOLLOW)


def take_named(path: str, expected: Expected) -> int:
    """The same for a path chosen by mpmon's user: its links are followed, wherever they lead.

    Raises:
        OSError: as `opened`.
    """
    return _take(Place(path), expected, 0)


def read(place: Place, expected: Expected, limit: int) -> bytes:
    """The beginning of a file, at most `limit` bytes.

    Raises:
        OSError: as `opened`, and read(2).
    """
    with opened(place, expected) as descriptor:
        return os.pread(descriptor, limit, 0)


def names(folder: int, most: int = MOST_NAMES) -> list[str]:
    """The names in a folder that is `opened`, unordered, at most `most`.

    Raises:
        OSError: as getdents(2).
    """
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, most)]


def status(folder: int, name: str) -> os.stat_result:
    """The status of one of the `names`; a link is not followed.

    Raises:
        OSError: as fstatat(2).
    """
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def behind(link: str) -> os.stat_result:
    """The status of the target of a link of proc_pid_fd(5).

    Raises:
        OSError: as stat(2).
    """
    return os.stat(link)


class Found:
    """A file that was looked up and is as expected, for the length of a `with` block; it is opened only when read."""

    def __init__(self, place: Place, expected: Expected) -> None:
        """
        Raises:
            Refused: it is something else, or belongs to another user.
            OSError: as openat2(2).
        """
        self._place = place
        self._found, self._descriptor = _look_up(place, os.O_NOFOLLOW), -1
        try:
            self.info = os.fstat(self._found)
            _check(self.info, expected, place)
        except OSError:
            os.close(self._found)
            raise

    def __enter__(self) -> Found:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._found, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)

    def descriptor(self) -> int:
        """To read from.

        Raises:
            Refused: another process has a lease on it.
            OSError: as open(2).
        """
        if self._descriptor < 0:
            self._descriptor = open_found(self._found, self.info, self._place)
        return self._descriptor


@contextmanager
def opened_behind(link: str, expected: Expected) -> Generator[int]:
    """The target of a link of proc_pid_map_files(5), whatever is at its path now, for the length of a `with` block.

    Raises:
        Refused: it leads to something else, or to another user's file.
        OSError: as open(2); EPERM without CAP_SYS_ADMIN and CAP_CHECKPOINT_RESTORE.
    """
    found = os.open(link, _FINDING)
    try:
        _check(os.fstat(found), expected, Place(link))
        descriptor = os.open(f"/proc/self/fd/{found}", _READING)
    finally:
        os.close(found)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def words(problem: OSError) -> str:
    """What went wrong, as the rest of a sentence about a name."""
    said = problem.strerror or "unreadable"
    return said if isinstance(problem, Refused) else said.lower()


def _take(place: Place, expected: Expected, follow: int) -> int:
    found = _look_up(place, follow)
    try:
        info = os.fstat(found)
        if follow and _may_be_followed(info, expected):
            return _take(place, expected, 0)
        _check(info, expected, place)
        return open_found(found, info, place)
    finally:
        os.close(found)


def open_found(found: int, info: os.stat_result, place: Place) -> int:
    """A descriptor to read from, for what an O_PATH descriptor found and fstat(2) says about it.

    Raises:
        Refused: another process has a lease on it.
        OSError: as open(2).
    """
    if stat.S_ISREG(info.st_mode) and info.st_ino in _leases.inodes():
        raise _refusal("has a lease of another process on it, which opening it would break (fcntl(2))", place)
    # This opens the inode that was checked, whatever is at its path now.
    return os.open(f"/proc/self/fd/{found}", _READING)


def _may_be_followed(info: os.stat_result, expected: Expected) -> bool:
    """A link to a folder is followed only if one of the folder's allowed owners owns it: another user's link could lead
    anywhere.
    """
    named = expected.kind == stat.S_IFDIR and stat.S_ISLNK(info.st_mode)
    return named and (not expected.owners or info.st_uid in expected.owners)


def _look_up(place: Place, follow: int) -> int:
    """A descriptor of what is there, unopened: only fstat(2) and a few other calls accept it."""
    if "\0" in place.path:
        raise _refusal("is not a path", place)
    if place.root == OWN_ROOT:
        # There is nothing outside it.
        return os.open(place.path, _FINDING | follow)
    if isinstance(place.root, int):
        return _look_up_in(place.root, place, follow)
    root = os.open(place.root, _FINDING | os.O_DIRECTORY)
    try:
        return _look_up_in(root, place, follow)
    finally:
        os.close(root)


def _look_up_in(root: int, place: Place, follow: int) -> int:
    how = _HOW.pack(_FINDING | follow, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    try:
        return call(OPENAT2, root, os.fsencode(place.path), how, len(how))
    except OSError as problem:
        # A sandbox that does not know the call may answer with EPERM.
        if problem.errno in (errno.ENOSYS, errno.EPERM):
            return _walk(root, place)
        problem.filename = str(place)
        raise


def _walk(root: int, place: Place) -> int:
    """Walk part by part; a link has to be refused, since only the kernel can keep it inside."""
    found = os.dup(root)
    for part in place.path.split("/"):
        if part in ("", "."):
            continue
        try:
            if part == "..":
                raise _refusal("leads upwards, which this kernel cannot keep inside of the process's root", place)
            if stat.S_ISLNK(os.fstat(found).st_mode):
                raise _refusal(
                    "has a symbolic link in it, which this kernel cannot keep inside of the process's root", place
                )
            deeper = os.open(part, _FINDING | os.O_NOFOLLOW, dir_fd=found)
        finally:
            os.close(found)
        found = deeper
    return found


def _refusal(why: str, place: Place) -> Refused:
    return Refused(errno.EPERM, why, str(place))


def _check(info: os.stat_result, expected: Expected, place: Place) -> None:
    kind = stat.S_IFMT(info.st_mode)
    if kind != expected.kind:
        raise _refusal(f"is {_KINDS.get(kind, 'something else')}, not {_KINDS[expected.kind]}", place)
    if not expected.owners:
        return
    if info.st_uid not in expected.owners:
        raise _refusal(f"belongs to {name_of(info.st_uid)}, not to {name_of(expected.owners[0])}", place)
    if info.st_mode & _WRITABLE_BY_OTHERS:
        raise _refusal(f"may be written by others than {name_of(info.st_uid)}: chmod go-w", place)
    if kind == stat.S_IFREG and info.st_nlink > 1:
        raise _refusal(f"has {info.st_nlink} hard links", place)
