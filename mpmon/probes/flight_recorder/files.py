"""Dumps in files: one of one rank, or a folder of them. Pickles are told apart and never loaded."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from mpmon.errors import UsageError
from mpmon.probes.flight_recorder.dump import MOST_RANKS, BadDump, Dump, is_pickle, parse_dump
from mpmon.probes.flight_recorder.source import MOST_BYTES, REMEDY, CannotRead, Look

MOST_FILES = 4096
"""Of one folder."""

PICKLE_REMEDY = (
    "If you trust it, make JSON of it (python -c 'import json, pickle, sys; "
    "print(json.dumps(pickle.load(sys.stdin.buffer), default=str))' <FILE >rank0.json) and give that"
)


class File:
    """JSON of one rank."""

    def __init__(self, path: str) -> None:
        self.path = path

    def check(self) -> None:
        """Tell the user at once what is wrong with it.

        Raises:
            UsageError: a pickle, no JSON, or nobody knows of which rank.
        """
        try:
            record = _parsed_file(self.path, 0.0).record
        except BadDump as problem:
            remedy = PICKLE_REMEDY if "pickle" in str(problem) else REMEDY
            raise UsageError(f"the flight recorder {self.path!r} {problem}.", remedy) from problem
        except OSError as problem:
            raise UsageError(f"the flight recorder {self.path!r} cannot be read: {problem.strerror}.") from problem
        if record.rank is None:
            raise UsageError(
                f"the flight recorder {self.path!r} does not say of which rank it is.", "Name the file rank0.json."
            )

    def read(self, look: Look) -> Iterator[Dump | CannotRead]:
        """Its one rank."""
        yield _read_file(self.path, look.now())


class Folder:
    """JSON files, one a rank."""

    def __init__(self, path: str) -> None:
        self.path = path

    def check(self) -> None:
        """Tell the user at once if there is nothing in it.

        Raises:
            UsageError: no JSON in it, perhaps pickles, or it may not be read.
        """
        try:
            if self._files():
                return
            pickled = next((name for name in sorted(os.listdir(self.path)) if self._is_pickle(name)), None)
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
            yield _read_file(file, look.now())

    def _files(self) -> list[str]:
        names = sorted(name for name in os.listdir(self.path) if name.endswith(".json"))
        return [os.path.join(self.path, name) for name in names[:MOST_FILES]]

    def _is_pickle(self, name: str) -> bool:
        path = os.path.join(self.path, name)
        try:
            return stat.S_ISREG(os.stat(path).st_mode) and is_pickle(_start(path))
        except OSError:
            return False


_PICKLED = "is a pickle, which mpmon never loads because that would run whatever it holds"


def _start(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(2)


def _read_file(path: str, now: float) -> Dump | CannotRead:
    try:
        dump = _parsed_file(path, now)
    except BadDump as problem:
        return CannotRead(f"{path} {problem}")
    except OSError as problem:
        return CannotRead(f"{path}: {problem.strerror}")
    if dump.record.rank is None:
        return CannotRead(f"{path} does not say of which rank it is; name it rank0.json")
    return dump


def _parsed_file(path: str, now: float) -> Dump:
    """Raises: BadDump, OSError."""
    # Without O_NONBLOCK a pipe that took the file's place would block for ever.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise BadDump("is no regular file")
        text = file.read(MOST_BYTES + 1)
    if is_pickle(text):
        raise BadDump(_PICKLED)
    if len(text) > MOST_BYTES:
        raise BadDump(f"is larger than {MOST_BYTES >> 20} MiB")
    return parse_dump(text, rank=rank_of_name(path), pid=None, read_at=min(facts.st_mtime, now or facts.st_mtime))


def rank_of_name(path: str) -> int | None:
    """The last number in a file's name: 3 of `nccl_trace_rank_3.json`."""
    numbers = re.findall(r"[0-9]+", Path(path).name.partition(".")[0])
    return int(numbers[-1]) if numbers and len(numbers[-1]) < 9 and int(numbers[-1]) < MOST_RANKS else None
