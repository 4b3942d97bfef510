"""Dumps in files: one file for one rank, or a folder of them. Pickles are recognised and never loaded.

Files in a folder may belong to anyone and change at any time: links are followed only where the user named one, and only
regular files are read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mpmon.errors import UsageError
from mpmon.probes.aside import may_hang
from mpmon.probes.door import Place, open_found
from mpmon.probes.files import Proc
from mpmon.probes.flight_recorder.dump import MOST_RANKS, BadDump, Dump, is_pickle, parse_dump
from mpmon.probes.flight_recorder.source import MOST_BYTES, REMEDY, CannotRead, Look

MOST_FILES = 4096
"""Most files of one folder."""

PICKLE_REMEDY = (
    "If you trust it, make JSON of it (python -c 'import json, pickle, sys; "
    "print(json.dumps(pickle.load(sys.stdin.buffer), default=str))' <FILE >rank0.json) and give that"
)


class File:
    """A JSON file of one rank."""

    def __init__(self, path: str, proc: Proc) -> None:
        self.path = path
        self._proc = proc

    def check(self) -> None:
        """Report at once what is wrong with it.

        Raises:
            UsageError: a pickle, not JSON, or of an unknown rank.
        """
        try:
            record = _parsed_file(self._proc, self.path, 0.0, follow=True).record
        except BadDump as problem:
            remedy = PICKLE_REMEDY if "pickle" in str(problem) else REMEDY
            raise UsageError(f"the flight recorder {self.path!r} {problem}.", remedy) from problem
        except OSError as problem:
            raise UsageError(f"the flight recorder {self.path!r} cannot be read: {problem.strerror}.") from problem
        if record.rank is None:
            raise UsageError(
                f"the flight recorder {self.path!r} does not say which rank it belongs to.", "Name the file rank0.json."
            )

    def read(self, look: Look) -> Iterator[Dump | CannotRead]:
        """The rows of its one rank."""
        yield _read_file(self._proc, self.path, look.now(), follow=True)


class Folder:
    """A folder of JSON files, one per rank."""

    def __init__(self, path: str, proc: Proc) -> None:
        self.path = path
        self._proc = proc

    def check(self) -> None:
        """Report at once if it contains no usable file.

        Raises:
            UsageError: no JSON in it, perhaps pickles, or it cannot be read.
        """
        try:
            if self._files():
                return
            pickled = next((name for name in sorted(self._names()) if self._is_pickle(name)), None)
        except OSError as problem:
            raise UsageError(f"the folder {self.path!r} cannot be read: {problem.strerror}.") from problem
        if pickled:
            file = os.path.join(self.path, pickled)
            raise UsageError(f"the flight recorder {file!r} {_PICKLED}.", PICKLE_REMEDY)
        raise UsageError(f"no file in {self.path!r} ends in .json.", REMEDY)

    def read(self, look: Look) -> Iterator[Dump | CannotRead]:
        """One file after the other."""
        try:
            files = self._files()
        except OSError as problem:
            yield CannotRead(f"{self.path}: {problem.strerror}")
            return
        for file in files:
            yield _read_file(self._proc, file, look.now(), follow=False)

    def _files(self) -> list[str]:
        names = sorted(name for name in self._names() if name.endswith(".json"))
        return [os.path.join(self.path, name) for name in names[:MOST_FILES]]

    def _names(self) -> list[str]:
        return names_in(self._proc, os.path.abspath(self.path))

    def _is_pickle(self, name: str) -> bool:
        try:
            text, _ = content_of(self._proc, os.path.abspath(os.path.join(self.path, name)), 2, follow=False)
            return is_pickle(text)
        except (BadDump, OSError):
            return False


_PICKLED = "is a pickle, which mpmon never loads because that could run any code in it"


def _read_file(proc: Proc, path: str, now: float, *, follow: bool) -> Dump | CannotRead:
    try:
        dump = _parsed_file(proc, path, now, follow=follow)
    except BadDump as problem:
        return CannotRead(f"{path} {problem}")
    except OSError as problem:
        return CannotRead(f"{path}: {problem.strerror}")
    if dump.record.rank is None:
        return CannotRead(f"{path} does not say which rank it belongs to; name it rank0.json")
    return dump


def _parsed_file(proc: Proc, path: str, now: float, *, follow: bool) -> Dump:
    """Raises: BadDump, OSError."""
    text, written_at = content_of(proc, os.path.abspath(path), MOST_BYTES + 1, follow=follow)
    if is_pickle(text):
        raise BadDump(_PICKLED)
    if len(text) > MOST_BYTES:
        raise BadDump(f"is larger than {MOST_BYTES >> 20} MiB")
    return parse_dump(text, rank=rank_of_name(path), pid=None, read_at=min(written_at, now))


@may_hang
def kind_of(_proc: Proc, path: str) -> int:
    """`st_mode` of a path (inode(7)).

    Raises:
        OSError, ValueError: as stat(2); it is no path.
    """
    return os.stat(path).st_mode


@may_hang
def names_in(_proc: Proc, folder: str) -> list[str]:
    """The names in a folder.

    Raises:
        OSError: as opendir(3).
    """
    return os.listdir(folder)


@may_hang
def content_of(_proc: Proc, path: str, most: int, *, follow: bool) -> tuple[bytes, float]:
    """The first bytes of a regular file, and when it was written, seconds since the epoch.

    Raises:
        BadDump: it is something else.
        OSError: as open(2) and read(2).
    """
    with _opened(path, follow=follow) as file:
        return file.read(most), max(0.0, os.fstat(file.fileno()).st_mtime)


def _opened(path: str, *, follow: bool) -> BinaryIO:
    """A regular file, opened without blocking; `follow` allows a link to one. All files of this package are opened here.

    Raises:
        BadDump: it is something else.
        OSError: as open(2).
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        info = os.fstat(found)
        if stat.S_ISLNK(info.st_mode):
            raise BadDump("is a link, which mpmon follows only where it is named itself")
        if not stat.S_ISREG(info.st_mode):
            raise BadDump("is not a regular file")
        return open(open_found(found, info, Place(path)), "rb")
    finally:
        os.close(found)


def rank_of_name(path: str) -> int | None:
    """The last number in a file's name: 3 of `nccl_trace_rank_3.json`."""
    numbers = re.findall(r"[0-9]+", Path(path).name.partition(".")[0])
    return int(numbers[-1]) if numbers and len(numbers[-1]) < 9 and int(numbers[-1]) < MOST_RANKS else None
