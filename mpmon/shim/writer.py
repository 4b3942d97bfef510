"""The file of this process: created when there is something to record, grown in steps, never a reason to wait.

Pages are allocated before anything is stored in them: a store into a page that a full tmpfs cannot provide would be a SIGBUS.
So a full tmpfs shows as an error when the file is created, which turns the shim off, or when it grows: then the record is
dropped and counted.

A forked child has its parent's file mapped too and must never store there.
`forget` is called before it runs anything: from then on it has no file, until it needs its own. The parent's mapping is left
alone in the child, since Python before 3.13 keeps a descriptor with it (mmap's `trackfd`), which the job may have closed and
reused for something else.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from errno import EFBIG, ENOENT
from mmap import mmap
from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit
from time import monotonic_ns

from . import layout, patches, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEPT = "_mpmon_maps"
"""Attribute of `sys` with every mapping. At interpreter shutdown modules lose their globals, `sys` last of all: by then the job
has closed its descriptors, so it does not matter if the mapping's descriptor number was reused."""

_TRACKS_NO_DESCRIPTOR: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class Room:
    """The records of one region: taken, given back, taken again."""

    def __init__(self, writer: Writer, region: layout.Region, *, allocated: int = 0, reserved: int = 0) -> None:
        self._writer = writer
        self._region = region
        self.free: list[int] = []
        """Freed records; the last one is reused first, because its page is most likely cached."""
        self._used = reserved
        self._allocated = allocated
        self.generation_at = region.generation_at
        self.changes = 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a new record, and none can be made."""
        return not self.free and (self._used == self._region.most or self._writer.is_full)

    def take(self) -> int | None:
        """The number of a free record; `None` if there is no room, or another thread is making room."""
        try:
            return self.free.pop()
        except IndexError:
            return self._take_new()

    def give(self, number: int) -> None:
        """Free a record for reuse."""
        self.free.append(number)

    def words(self, number: int) -> memoryview:
        """The words of a record."""
        first = self._region.start // layout.WORD + number * self._region.record_words
        return self._writer.words[first : first + self._region.record_words]

    def changed(self) -> None:
        """Tell readers to look at this region again."""
        self.changes += 1
        self._writer.words[self.generation_at] = self.changes

    def _take_new(self) -> int | None:
        writer = self._writer
        # Nothing waits for the shim: the holder of this lock may be this very thread.
        if not writer.lock.acquire(False):
            return writer.drop()
        try:
            if self._used == self._region.most or not self._has_room():
                return writer.drop()
            number = self._used
            self._used += 1
            writer.words[self._region.used_at] = self._used
            return number
        finally:
            writer.lock.release()

    def _has_room(self) -> bool:
        needed = (self._used + 1) * self._region.record_bytes
        if needed > self._allocated and self._writer.allocate(self._region.start + self._allocated, layout.STEP):
            self._allocated += layout.STEP
        return needed <= self._allocated


class Writer:
    """The file of this process, and its four regions."""

    def __init__(self) -> None:
        self.off = False
        """Off for good: there is no place for a file."""
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Start without a file: at the beginning, and in a freshly forked child."""
        self.lock = allocate_lock()
        self.words = memoryview(bytearray(layout.HEADER_WORDS * layout.WORD)).cast("Q")
        self.bytes = memoryview(b"")
        self.path: str | None = None
        self._made: os.stat_result | None = None
        """Status of that file: another one may take its path."""
        self.is_full = False
        """The file system has no room left."""
        self.queues = Room(self, layout.QUEUES, allocated=layout.STEP)
        self.texts = Room(self, layout.TEXTS, allocated=layout.STEP, reserved=1)
        self.exports = Room(self, layout.EXPORTS)
        self.imports = Room(self, layout.IMPORTS)

    def ready(self) -> bool:
        """Whether there is a file; creates it when there is none yet."""
        if self.path:
            return True
        if self.off or not self.lock.acquire(False):
            return False
        try:
            self._make()
        except Exception as problem:
            self.off = True
            patches.give_up()
            say(f"shim off in pid {os.getpid()}: {problem}")
        finally:
            self.lock.release()
        return self.path is not None

    def drop(self) -> None:
        """Count a record that there is no room for."""
        self.words[layout.DROPPED] += 1

    def allocate(self, start: int, length: int) -> bool:
        """Allocate the pages of a part of the file; false when the file system has none left."""
        if self.is_full or not self.path:
            return False
        try:
            _check_limit()
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                # Another file may have taken that path: its pages are not those of the mapping.
                if self._made is None or not os.path.samestat(self._made, os.fstat(descriptor)):
                    raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.path)
                os.posix_fallocate(descriptor, start, length)
            finally:
                os.close(descriptor)
        except Exception:
            self.is_full = True
        return not self.is_full

    def _make(self) -> None:
        name = places.Name.own()
        path, folder = places.open_folder()
        try:
            places.thin_out(folder)
            mapping, self._made = _make_file(name.file(), folder)
        finally:
            os.close(folder)
        setattr(sys, KEPT, (*getattr(sys, KEPT, ()), mapping))
        self.bytes = memoryview(mapping)
        self.words = self.bytes.cast("Q")
        self._write_header(name)
        self.path = os.path.join(path, name.file())

    def _write_header(self, name: places.Name) -> None:
        words = self.words
        words[layout.PID] = name.pid
        words[layout.START_TICKS] = name.start_ticks
        words[layout.PPID] = os.getppid()
        words[layout.PGID] = os.getpgrp()
        words[layout.OPENED_AT] = monotonic_ns()
        words[layout.IDENTITY_SEAL] = layout.seal(words[1 : layout.IDENTITY_SEAL])
        words[0] = layout.MAGIC


def _make_file(file: str, folder: int) -> tuple[mmap, os.stat_result]:
    """A new file with the pages that every process needs, mapped in full, and its os.fstat result.

    Raises:
        OSError: as open(2), posix_fallocate(3) and mmap(2); then the file is removed.
    """
    _check_limit()
    descriptor = places.make_file(file, folder, os.O_RDWR)
    try:
        os.truncate(descriptor, layout.SIZE)
        os.posix_fallocate(descriptor, 0, layout.QUEUES.start + layout.STEP)
        os.posix_fallocate(descriptor, layout.TEXTS.start, layout.STEP)
        return mmap(descriptor, layout.SIZE, **_TRACKS_NO_DESCRIPTOR), os.fstat(descriptor)
    except BaseException:
        places.remove(file, folder)
        raise
    finally:
        os.close(descriptor)


def _check_limit() -> None:
    """Check the limit on file size first: exceeding it makes the kernel send SIGXFSZ, which may end the job.

    Raises:
        OSError: the shim's file would exceed it.
    """
    most, _ = getrlimit(RLIMIT_FSIZE)
    if RLIM_INFINITY != most < layout.SIZE:
        raise OSError(EFBIG, os.strerror(EFBIG))


def say(words: str) -> None:
    """One line to standard error, if there is one."""
    try:
        sys.stderr.write(f"mpmon: {words}\n")
    except Exception:
        return


WRITER = Writer()
