"""mpmon's own paths: its settings, recordings that it plays or makes, the folder of the shim's files.

A path on an externally served file system (NFS, SMB, FUSE ...) may never answer, and neither Ctrl-C nor, in the worst
case, SIGKILL ends a process that waits for it. So calls that access such a path are made in a helper process
(`mpmon.probes.aside`), one for all of them, and a missed deadline is `Silent`. Paths on local file systems are accessed
directly, because the helper takes as long to start as the first picture.
"""

from __future__ import annotations

import io
import os
import stat
import time

from mpmon import private
from mpmon.errors import MpmonError
from mpmon.probes.files import Proc
from mpmon.probes.mounts import mounts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ParamSpec, TypeVar

    from typing_extensions import Buffer

    from mpmon.probes.aside import Aside

    Given = ParamSpec("Given")
    Result = TypeVar("Result")

MOST_LINKS = 40
"""Most links followed in one path, as in the kernel: path_resolution(7)."""

MOST_WAITING = 64 << 20
"""Most bytes kept for a file whose server does not answer."""

PATIENCE_S = 1.0
"""How long a writer waits for a server."""

ASKS = "autofs"
"""A file system of this machine, but going through it waits for the one that is then mounted: autofs(5)."""

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_helper: list[Aside] = []
"""At most one: it is started for the first call and ends with mpmon."""


class Silent(MpmonError):
    """The file system of a path of mpmon's own does not answer."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"the file system of {path} does not answer.", "Check its server, or name a path on another file system."
        )


def served(path: str) -> str:
    """The path after following links, if it is on an externally served file system; else empty.

    Such a file system is not accessed: the way to it is walked part by part, and ends there.
    """
    try:
        left = os.path.join(os.getcwd(), path).split("/")[::-1]
    except OSError:  # the present folder was removed
        left = path.split("/")[::-1]
    mounts = mounts_of(Proc(), os.getpid())
    here, links = "/", 0
    while left and links <= MOST_LINKS:
        part = left.pop()
        if part in ("", "."):
            continue
        here = os.path.dirname(here) if part == ".." else os.path.join(here, part)
        mount = mounts.of_path(here)
        if mount is not None and (not mount.is_local or mount.kind == ASKS):
            return os.path.join(here, *left[::-1])
        try:
            link = os.readlink(here)
        except OSError:  # there is none, or nothing
            continue
        links += 1
        here = "/" if link.startswith("/") else os.path.dirname(here)
        left += link.split("/")[::-1]
    return ""


def asked(paths: Iterable[str], function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """The result of a function that accesses these paths.

    It may be called in another process: all its arguments must be picklable, and paths absolute.

    Raises:
        Silent: the file system of one of them does not answer.
        Exception: what the function raises.
    """
    far = next(filter(served, paths), None)
    aside = _started() if far else None
    if far is None or aside is None:
        return function(*given, **named)
    from mpmon.probes.aside import Unanswered

    try:
        return aside.call(_made, far, function, given, named)
    except Unanswered as problem:
        raise Silent(far) from problem


def _made(_path: str, function: Callable[..., Result], given: tuple[object, ...], named: dict[str, object]) -> Result:
    return function(*given, **named)


def _started() -> Aside | None:
    """If no process can be started, calls are made directly."""
    from mpmon.probes.aside import Aside

    if not _helper:
        _helper.append(Aside())
    return _helper[0] if _helper[0].start() else None


class Reader(io.RawIOBase):
    """A regular file on an externally served file system, from its beginning to its end."""

    def __init__(self, path: str) -> None:
        """
        Raises:
            Silent, OSError: as open(2).
        """
        self._path = path
        self._place = 0
        self.mode_of_file = asked([path], _mode, path)
        """`st_mode` of inode(7)."""

    def readable(self) -> bool:
        """For the classes of `io`."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """
        Raises:
            Silent, OSError: as lseek(2).
        """
        known = {os.SEEK_SET: 0, os.SEEK_CUR: self._place}
        begin = known[whence] if whence in known else asked([self._path], os.path.getsize, self._path)
        self._place = begin + offset
        return self._place

    def readinto(self, buffer: Buffer) -> int:
        """
        Raises:
            Silent, OSError: as pread(2).
        """
        into = memoryview(buffer).cast("B")
        found = asked([self._path], _part, self._path, self._place, len(into))
        into[: len(found)] = found
        self._place += len(found)
        return len(found)


class Writer:
    """A new file on an externally served file system. It is written as fast as that accepts data, and no caller waits
    longer than a moment; unwritten data is kept, within bounds.
    """

    def __init__(self, path: str) -> None:
        """
        Raises:
            Silent, OSError: as open(2); FileExistsError where there is one already.
        """
        asked([path], _make, path)
        self._path = path
        self._waiting = bytearray()
        self._number: int | None = None
        """The number of the write call under way."""
        self._is_lost = False
        self.problem: str | None = None
        """Why it cannot be written, in words."""

    def write(self, data: Buffer) -> int:
        """Queue data for the next `flush`."""
        if not self._is_lost:
            self._waiting += data
        return len(memoryview(data))

    def flush(self) -> None:
        """Write what is queued, as far as the file system accepts it.

        Raises:
            OSError: as write(2).
        """
        from mpmon.probes.aside import Unanswered

        aside = None if self._is_lost else _started()
        if aside is None:
            return
        try:
            if self._written(aside, time.monotonic() + (0.0 if self.problem else PATIENCE_S)):
                self.problem = None
                return
        except Unanswered:
            self._is_lost = True
        self._is_lost |= len(self._waiting) > MOST_WAITING
        self.problem = f"the file system of {self._path} does not answer"
        if self._is_lost:
            self._waiting.clear()
            self.problem += ", and what was written since is lost"

    def close(self) -> None:
        """Write the rest, if its server accepts it within a moment.

        Raises:
            OSError: as write(2).
        """
        self.flush()

    def _written(self, aside: Aside, until: float) -> bool:
        """
        Raises:
            Unanswered: nothing more can be written.
            OSError: as write(2).
        """
        while self._waiting or self._number is not None:
            if self._number is None:
                self._number = aside.post(_append, self._path, bytes(self._waiting))
                self._waiting.clear()
            answer = aside.posted(self._number, max(0.0, until - time.monotonic()))
            if answer is None:
                return False
            self._number = None
            if answer.raised is not None:
                raise answer.raised
        return True


# In the helper


def _mode(path: str) -> int:
    return os.stat(path).st_mode


def _part(path: str, place: int, size: int) -> bytes:
    descriptor = _regular(path, _READING)
    try:
        return os.pread(descriptor, size, place)
    finally:
        os.close(descriptor)


def _make(path: str) -> None:
    os.close(private.make(path))


def _append(path: str, data: bytes) -> None:
    descriptor = _regular(path, _APPENDING)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _regular(path: str, flags: int) -> int:
    """
    Raises:
        OSError: as open(2); it has become something else.
    """
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(2, "it is no longer a regular file", path)
    return descriptor
