"""Recordings: the facts of each round in a file, so that any later version can diagnose the hang again.

JSON lines, gzip when the name ends in `.gz`; opinions are not stored.
Each round is flushed, so what was written survives mpmon being killed; a reader drops a last line that was cut, and says so
in the probes of the last round.
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

import msgspec

from mpmon import __version__
from mpmon.codec import RECORDING_SCHEMA, BadRecording, Header, decode, decode_round, encode, encode_round
from mpmon.errors import MpmonError, UsageError
from mpmon.model import ProbeReport, Snapshot

CUT = "its file ends in the middle: it was cut, or is not written to its end"


class _Cut(Exception):
    """The file ends before the recording does."""


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
    """The snapshots of a recording, as they were taken; where it was cut, the last one has a probe `recording` that says so.

    Raises:
        UsageError: no such file, or not a recording of mpmon.
    """
    lines = _lines(path)
    try:
        header = decode(_first(lines), Header)
    except BadRecording as problem:
        raise UsageError(f"{path} is not a recording of mpmon.", "Make one with: mpmon PID --record FILE") from problem
    if header.schema != RECORDING_SCHEMA:
        raise UsageError(
            f"{path} has the format {header.schema}, this mpmon reads {RECORDING_SCHEMA}.", "Update mpmon."
        )
    yield from _with_end(_snapshots(path, lines))


def _with_end(snapshots: Iterator[Snapshot]) -> Iterator[Snapshot]:
    last: Snapshot | None = None
    problem: UsageError | None = None
    try:
        for snapshot in snapshots:
            if last is not None:
                yield last
            last = snapshot
    except _Cut:
        report = ProbeReport(name="recording", ok=False, seconds=0.0, problem=CUT)
        last = last and msgspec.structs.replace(last, probes=(*last.probes, report))
    except UsageError as damage:
        problem = damage
    if last is not None:
        yield last
    if problem:
        raise problem


def _snapshots(path: Path, lines: Iterator[bytes]) -> Iterator[Snapshot]:
    before: Snapshot | None = None
    for line in lines:
        try:
            before = decode_round(line, before)
        except BadRecording as problem:
            # Only the last line may be cut: mpmon was killed while it wrote.
            if before is not None and not _first(lines):
                raise _Cut from problem
            raise UsageError(f"{path} is damaged.", "Record again.") from problem
        yield before


def count_rounds(path: Path) -> int:
    """How many snapshots a recording has, without a last one that was cut.

    Raises:
        UsageError: no such file, or one that cannot be read.
    """
    lines = 0
    with contextlib.suppress(_Cut):
        for chunk in _chunks(path):
            lines += chunk.count(b"\n")
    return max(0, lines - 1)


def _first(lines: Iterator[bytes]) -> bytes:
    """The next line; empty at the end, be that a cut."""
    try:
        return next(lines, b"")
    except _Cut:
        return b""


def _lines(path: Path) -> Iterator[bytes]:
    pending, cut = b"", None
    try:
        for chunk in _chunks(path):
            *complete, pending = (pending + chunk).split(b"\n")
            yield from complete
    except _Cut as found:
        cut = found
    if pending:
        yield pending
    if cut:
        raise cut


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
    """
    Raises:
        _Cut: the gzip stream has no end, since its writer was killed.
    """
    try:
        while chunk := file.read1(1 << 20):
            yield chunk
    except EOFError as problem:
        raise _Cut from problem
