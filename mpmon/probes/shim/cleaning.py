"""Removing the files of dead jobs: `mpmon gc`, and `mpmon run` when its job has ended.

A matching name is not enough: it has to be a regular file that the shim has written, owned by the user who cleans up, or, if
that is root, by the owner of the folder; and it must still be the same file when it is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from mpmon.probes.door import FILE, FOLDER, Place, Refused, names, opened, status, words
from mpmon.probes.shim.stacks import is_stacks
from mpmon.shim import layout
from mpmon.shim.places import RECORDS, STACKS, Name, default_folders

_ROOT = 0

HEADER_BYTES = layout.HEADER_WORDS * layout.WORD


class Removed(NamedTuple):
    """One file that was removed."""

    path: str
    pid: int
    """Pid of the process that wrote it, in its pid namespace."""
    bytes: int
    """Memory it occupied."""


class _Leftover(NamedTuple):
    folder: str
    descriptor: int
    """Descriptor of that folder, which is open."""
    file: str
    identity: tuple[int, int]
    """Device and inode."""
    bytes: int
    pid: int
    dead: bool
    job: int
    """The process group, which the processes of a job share; a unique number if the file does not give it."""
    opened_at: int

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.folder, self.file)


def usual_folders() -> tuple[str, ...]:
    """Default folders of this user's files."""
    return default_folders(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))


def refusal(folder: str) -> str:
    """Why nothing may be removed from a folder; empty where it may, or if there is no such folder."""
    try:
        with ExitStack() as held:
            _open(folder, held)
    except FileNotFoundError:
        return ""
    except Refused as problem:
        return f"it {words(problem)}"
    except OSError as problem:
        return words(problem)
    return ""


def clean(folders: Iterable[str], *, keep_newest: bool = True) -> tuple[Removed, ...]:
    """Remove the files of jobs that have no live process, except for the newest of those jobs; returns what was removed.

    Files of processes in another pid namespace, and files that are not the shim's, are left alone.
    """
    with ExitStack() as held:
        left = [leftover for folder in dict.fromkeys(folders) for leftover in _leftovers(folder, held)]
        alive = {leftover.job for leftover in left if not leftover.dead}
        dead = [leftover for leftover in left if leftover.dead and leftover.job not in alive]
        newest = max(dead, key=lambda leftover: leftover.opened_at, default=None)
        kept = newest.job if newest and keep_newest else None
        return tuple(removed for leftover in dead if leftover.job != kept and (removed := _remove(leftover)))


def _open(folder: str, held: ExitStack) -> int:
    """
    Raises:
        OSError: it may not be listed.
        Refused: it belongs to another user, or others may write to it.
    """
    me = os.geteuid()
    place = Place(os.path.abspath(folder))
    if me != _ROOT:
        return held.enter_context(opened(place, FOLDER.by(me)))
    # Root cleans up after any user, but only the owner of the folder may have created its files.
    owner = os.fstat(held.enter_context(opened(place, FOLDER))).st_uid
    return held.enter_context(opened(place, FOLDER.by(owner)))


def _leftovers(folder: str, held: ExitStack) -> Iterator[_Leftover]:
    try:
        descriptor = _open(folder, held)
        files = names(descriptor)
    except OSError:
        return
    for file in files:
        name = Name.parse(file, RECORDS, STACKS)
        leftover = _examine(folder, descriptor, file, name) if name else None
        if leftover is not None:
            yield leftover


def _examine(folder: str, descriptor: int, file: str, name: Name) -> _Leftover | None:
    """What a file contains; `None` if it is not the shim's, or this user may not remove it."""
    # Checked before the file is read: a process that ends in between counts as dead the next time.
    dead = name.is_dead()
    try:
        with opened(Place(file, descriptor), FILE.by(os.fstat(descriptor).st_uid)) as found:
            content, info = os.pread(found, HEADER_BYTES, 0), os.fstat(found)
    except OSError:
        return None
    header = memoryview(content.ljust(HEADER_BYTES, b"\0")).cast("Q")
    if not (is_stacks(content) if file.endswith(STACKS) else _is_records(header)):
        return None
    whole = header[0] == layout.MAGIC and layout.seal(header[1 : layout.IDENTITY_SEAL]) == header[layout.IDENTITY_SEAL]
    job, opened_at = (header[layout.PGID], header[layout.OPENED_AT]) if whole else (-name.pid, 0)
    identity = (info.st_dev, info.st_ino)
    return _Leftover(folder, descriptor, file, identity, info.st_blocks * 512, name.pid, dead, job, opened_at)


def _is_records(header: memoryview) -> bool:
    """Whether it is a file of records, of any version; one with an empty header was being created when its process ended."""
    return header[0] >> 8 == layout.MAGIC >> 8 or not any(header)


def _remove(leftover: _Leftover) -> Removed | None:
    try:
        info = status(leftover.descriptor, leftover.file)
        if (info.st_dev, info.st_ino) != leftover.identity:
            return None
        os.unlink(leftover.file, dir_fd=leftover.descriptor)
    except OSError:
        return None
    return Removed(leftover.path, leftover.pid, leftover.bytes)
