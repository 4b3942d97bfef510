"""Recordings: the facts of each round in a file, so that any later version can diagnose the hang again.

JSON lines, gzip when the name ends in `.gz`; opinions are not stored.
Each round is flushed, so what was written survives mpmon being killed; a reader drops a last line that was cut.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from mpmon import __version__
from mpmon.codec import RECORDING_SCHEMA, BadRecording, Header, decode, decode_round, encode, encode_round
from mpmon.errors import MpmonError, UsageError
from mpmon.model import Snapshot


class Recorder:
    """Writes snapshots to a new file."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            UsageError: the file exists already (nothing is ever overwritten) or cannot be made.
        """
        try:
            raw = path.open("xb")
        except FileExistsError as problem:
            raise UsageError(
                f"{path} exists already.", "Give a new name to --record; mpmon overwrites nothing."
            ) from problem
        except OSError as problem:
            raise UsageError(f"cannot write {path}: {problem.strerror}.", "Give a path you may write to.") from problem
        self._raw = raw
        self._file = gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else raw
        self._before: Snapshot | None = None

    def write(self, snapshot: Snapshot) -> None:
        """Add one round.

        Raises:
            MpmonError: the disk is full or the file is gone; what was written before stays readable.
        """
        if self._before is None:
            header = Header(schema=RECORDING_SCHEMA, mpmon=__version__, started_at=snapshot.taken_at)
            self._line(encode(header))
        self._line(encode_round(snapshot, self._before))
        self._before = snapshot

    def _line(self, text: bytes) -> None:
        try:
            self._file.write(text + b"\n")
            self._file.flush()
        except OSError as problem:
            raise MpmonError(
                f"the recording stopped: {problem.strerror}.", "Free space or record elsewhere."
            ) from problem

    def close(self) -> None:
        """Finish the file."""
        for file in (self._file, self._raw):
            # A full disk has been told about already.
            with contextlib.suppress(OSError):
                file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_recording(path: Path) -> Iterator[Snapshot]:
    """The snapshots of a recording, as they were taken.

    Raises:
        UsageError: no such file, or not a recording of mpmon.
    """
    lines = _lines(path)
    try:
        header = decode(next(lines, b""), Header)
    except BadRecording as problem:
        raise UsageError(f"{path} is not a recording of mpmon.", "Make one with: mpmon PID --record FILE") from problem
    if header.schema != RECORDING_SCHEMA:
        raise UsageError(
            f"{path} has the format {header.schema}, this mpmon reads {RECORDING_SCHEMA}.", "Update mpmon."
        )
    yield from _snapshots(path, lines)


def _snapshots(path: Path, lines: Iterator[bytes]) -> Iterator[Snapshot]:
    before: Snapshot | None = None
    for line in lines:
        try:
            before = decode_round(line, before)
        except BadRecording as problem:
            # Only the last line may be cut: mpmon was killed while it wrote.
            if next(lines, None) is None and before is not None:
                return
            raise UsageError(f"{path} is damaged.", "Record again.") from problem
        yield before


def count_rounds(path: Path) -> int:
    """How many snapshots a recording has, without a last one that was cut.

    Raises:
        UsageError: no such file, or one that cannot be read.
    """
    lines = sum(chunk.count(b"\n") for chunk in _chunks(path))
    return max(0, lines - 1)


def _lines(path: Path) -> Iterator[bytes]:
    pending = b""
    for chunk in _chunks(path):
        *complete, pending = (pending + chunk).split(b"\n")
        yield from complete
    if pending:
        yield pending


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            yield from _until_cut(gzip.GzipFile(fileobj=raw) if packed else raw)
    except FileNotFoundError as problem:
        raise UsageError(f"there is no file {path}.", "Give the path of a recording.") from problem
    except (OSError, EOFError, zlib.error) as problem:
        reason = os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno else str(problem)
        raise UsageError(f"{path} cannot be read: {reason}.", "Give the path of a recording.") from problem


def _until_cut(file: gzip.GzipFile | io.BufferedReader) -> Iterator[bytes]:
    """Until the end, or until the place where a killed writer cut the gzip stream."""
    with contextlib.suppress(EOFError):
        while chunk := file.read1(1 << 20):
            yield chunk
