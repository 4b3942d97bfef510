"""Removing the files of dead jobs: `mpmon gc`, and `mpmon run` when its job has ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mpmon.shim import layout
from mpmon.shim.places import RECORDS, STACKS, Name, default_folders

HEADER_BYTES = layout.HEADER_WORDS * layout.WORD


class Removed(NamedTuple):
    """One file that is gone now."""

    path: str
    pid: int
    """Of the process that wrote it, in its pid namespace."""
    bytes: int
    """Memory it took."""


class _Leftover(NamedTuple):
    path: str
    pid: int
    dead: bool
    job: int
    """The process group, which the processes of a job share; in a file that does not say, a number of its own."""
    opened_at: int
    bytes: int


def usual_folders() -> tuple[str, ...]:
    """Where this user's files lie when nobody said otherwise."""
    return default_folders(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))


def clean(folders: Iterable[str], *, keep_newest: bool = True) -> tuple[Removed, ...]:
    """Remove the files of jobs of which no process lives, but for the job that began last; what was removed.

    Files of processes of another pid namespace, and whatever is not the shim's, are left alone.
    """
    left = [leftover for folder in dict.fromkeys(folders) for leftover in _leftovers(folder)]
    alive = {leftover.job for leftover in left if not leftover.dead}
    dead = [leftover for leftover in left if leftover.dead and leftover.job not in alive]
    newest = max(dead, key=lambda leftover: leftover.opened_at, default=None)
    kept = newest.job if newest and keep_newest else None
    return tuple(removed for leftover in dead if leftover.job != kept and (removed := _remove(leftover)))


def _leftovers(folder: str) -> Iterator[_Leftover]:
    try:
        files = os.listdir(folder)
    except OSError:
        return
    for file in files:
        name = Name.parse(file, RECORDS, STACKS)
        leftover = _examine(os.path.join(folder, file), name) if name else None
        if leftover is not None:
            yield leftover


def _examine(path: str, name: Name) -> _Leftover | None:
    # Asked before its file is read: a process that ends in between is dead the next time.
    dead = name.is_dead()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        content = os.pread(descriptor, HEADER_BYTES, 0)
        size = os.fstat(descriptor).st_blocks * 512
    except OSError:
        return None
    finally:
        os.close(descriptor)
    words = memoryview(content.ljust(HEADER_BYTES, b"\0")).cast("Q")
    if words[0] != layout.MAGIC:
        return _Leftover(path, name.pid, dead, job=-name.pid, opened_at=0, bytes=size)
    return _Leftover(path, name.pid, dead, words[layout.PGID], words[layout.OPENED_AT], size)


def _remove(leftover: _Leftover) -> Removed | None:
    try:
        os.unlink(leftover.path)
    except OSError:
        return None
    return Removed(leftover.path, leftover.pid, leftover.bytes)
