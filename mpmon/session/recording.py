"""Recordings: the facts of each round in a file, so that any later version can diagnose the hang again.

JSON lines, gzip when the name ends in `.gz`; diagnoses are not stored.
Each round is flushed, so what was written survives mpmon being killed; a reader drops a last line that was cut, and says so
in the probes of the last round.
A recording may come from anywhere: it is read within size limits, and a defect is one sentence with the line number.
Its file system may stop answering: then reading ends with an error, and a watch that is recorded goes on
(`mpmon.probes.own`).
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from mpmon import __version__, private
from mpmon.codec import RECORDING_SCHEMA, BadRecording, Header, decode, decode_round, encode, encode_round
from mpmon.errors import MpmonError, UsageError
from mpmon.model import ProbeReport, Snapshot
from mpmon.probes import own
from mpmon.probes.door import FILE, PIPE, Refused, take_named, words

CUT = "its file ends in the middle: it was truncated, or is still being written"
FOLLOWED = "other data follows in its file and is not read"

GZIP, MAGIC = zlib.MAX_WBITS + 16, b"\x1f\x8b"
"""The `wbits` that make zlib read gzip, and the first bytes of gzip data: RFC 1952."""

BLANK, MOST_BLANK = b" \t\r\n\0", 16
"""Bytes that an editor, a copy or a tape leaves at the end of a file, and the most such lines that are skipped."""

MOST_LINE = 256 << 20
"""Most bytes of one round. A thousand processes take about one percent of it."""

MOST_ROWS, LEAST_OF_ROW = 1 << 19, 40
"""Most rows of one round whose rows have fewer bytes each than this: an empty one of three bytes takes half a kilobyte once it
is read. Those of frames, of which most of a large round consists, have some 60.
"""

CHUNK = 1 << 20
"""Bytes per read."""

LONGEST_SCHEMA = 40
"""Most letters of an unknown schema that are shown."""

REMEDY = "Give the path of a recording."


class _Cut(Exception):
    """The file ends before the recording does, or goes on after it; the message says how."""


class Recorder:
    """Writes snapshots to a new file."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            UsageError: the file exists already (nothing is ever overwritten) or cannot be created.
            Silent: its file system does not answer.
        """
        try:
            far = own.served(str(path))
            raw = own.Writer(far) if far else os.fdopen(private.make(path), "wb")
        except FileExistsError as problem:
            raise UsageError(
                f"{path} exists already.", "Give a new name to --record; mpmon overwrites nothing."
            ) from problem
        except OSError as problem:
            raise UsageError(f"cannot write {path}: {problem.strerror}.", "Give a path you may write to.") from problem
        self._path = path
        self._raw: own.Writer | BinaryIO = raw
        self._file = gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else raw
        self._before: Snapshot | None = None

    def write(self, snapshot: Snapshot) -> None:
        """Add one round.

        Raises:
            MpmonError: the disk is full or the file is gone; earlier rounds stay readable.
        """
        before, text = self._before, encode_round(snapshot, self._before)
        if before is None:
            header = Header(schema=RECORDING_SCHEMA, mpmon=__version__, started_at=snapshot.taken_at)
            text = encode(header) + b"\n" + text
        # Ctrl-C may come at any moment: `close` then keeps the file, and the header is never written without a round.
        self._before = snapshot
        self._line(text)

    @property
    def problem(self) -> str | None:
        """Why the file cannot be written at present, in words; the rounds are written once that has ended."""
        return self._raw.problem if isinstance(self._raw, own.Writer) else None

    def _line(self, text: bytes) -> None:
        try:
            self._file.write(text + b"\n")
            self._file.flush()
        except OSError as problem:
            raise MpmonError(
                f"the recording stopped: {problem.strerror}.", "Free space or record elsewhere."
            ) from problem

    def close(self) -> None:
        """Finish the file; remove it if nothing was written."""
        if self._before is None:
            with contextlib.suppress(OSError, own.Silent):
                own.asked([str(self._path)], os.unlink, os.path.abspath(self._path))
        for file in (self._file, self._raw):
            # A full disk has already been reported.
            with contextlib.suppress(OSError):
                file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_recording(path: Path, *, again: bool = False) -> Iterator[Snapshot]:
    """The snapshots of a recording, as they were taken; if it was cut, a probe `recording` in the last one says so.

    The file is opened, and its header is read, before this returns. A file to be read `again` later must not be a pipe.

    Raises:
        UsageError: no such file, or not a recording of mpmon; during iteration, a damaged line.
        Silent: its file system does not answer; also during iteration.
    """
    lines = _lines(path, again=again)
    try:
        header = decode(next(lines, b""), Header)
    except (BadRecording, _Cut) as problem:
        raise UsageError(f"{path} is not a recording of mpmon.", "Make one with: mpmon PID --record FILE") from problem
    if header.schema != RECORDING_SCHEMA:
        schema = header.schema[:LONGEST_SCHEMA]
        raise UsageError(f"{path} has the format {schema}, this mpmon reads {RECORDING_SCHEMA}.", "Update mpmon.")
    return _with_end(path, _snapshots(path, lines))


def _with_end(path: Path, snapshots: Iterator[Snapshot]) -> Iterator[Snapshot]:
    last: Snapshot | None = None
    problem: MpmonError | None = None
    try:
        for snapshot in snapshots:
            if last is not None:
                yield last
            last = snapshot
    except _Cut as cut:
        report = ProbeReport(name="recording", ok=False, seconds=0.0, problem=str(cut))
        if last is None:
            problem = UsageError(f"{path} has no whole round: {cut}.", "Copy it again, or record again.")
        else:
            last = msgspec.structs.replace(last, probes=(*last.probes, report))
    except MpmonError as damage:
        problem = damage
    if last is not None:
        yield last
    if problem:
        raise problem


def _snapshots(path: Path, lines: Iterator[bytes]) -> Iterator[Snapshot]:
    before: Snapshot | None = None
    number, blank = 2, 0
    try:
        for line in lines:
            if blank < MOST_BLANK and not line.strip(BLANK):
                blank += 1
                continue
            before = _round(line, before)
            yield before
            number += 1
    except BadRecording as problem:
        raise UsageError(f"{path} is damaged in line {number}: {problem}.", "Record again.") from problem


def _round(line: bytes, before: Snapshot | None) -> Snapshot:
    rows = line.count(b"{")
    if rows > MOST_ROWS and rows * LEAST_OF_ROW > len(line):
        raise BadRecording(f"it has more than {MOST_ROWS:,} rows, most of which say nothing")
    try:
        return decode_round(line, before)
    except BadRecording as problem:
        # Only the last line may be cut: mpmon was killed while writing it.
        if not line.endswith(b"\n"):
            raise _Cut(CUT) from problem
        raise


def count_rounds(path: Path) -> int:
    """How many snapshots a recording has, not counting a last one that was cut.

    Raises:
        UsageError: no such file, an unreadable file, or a pipe, which can be read only once.
    """
    lines = 0
    with contextlib.suppress(_Cut, BadRecording):
        for chunk in _chunks(path, again=True):
            lines += chunk.count(b"\n")
    return max(0, lines - 1)


def _lines(path: Path, *, again: bool = False) -> Iterator[bytes]:
    """The lines with their line feeds; the last one may lack it.

    Raises:
        BadRecording: a line is too long.
        _Cut: after the last line.
        UsageError: as `_chunks`.
    """
    pending, cut = bytearray(), None
    try:
        for chunk in _chunks(path, again=again):
            *complete, rest = chunk.split(b"\n")
            for line in complete:
                pending += line
                pending += b"\n"
                yield bytes(pending)
                pending = bytearray()
            pending += rest
    except _Cut as found:
        cut = found
    if pending:
        yield bytes(pending)
    if cut:
        raise cut


def _chunks(path: Path, *, again: bool = False) -> Iterator[bytes]:
    try:
        with _opened(path, again=again) as raw:
            is_packed = raw.peek(2)[:2] == MAGIC
            yield from _bounded(_unpacked(raw) if is_packed else iter(lambda: raw.read1(CHUNK), b""))
    except FileNotFoundError as problem:
        raise UsageError(f"there is no file {path}.", REMEDY) from problem
    except zlib.error as problem:
        raise UsageError(f"{path} cannot be read: its gzip data is damaged.", REMEDY) from problem
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise UsageError(f"{path} cannot be read: {reason}.", REMEDY) from problem


def _opened(path: Path, *, again: bool) -> io.BufferedReader:
    """A regular file, or a pipe of the shell (`/dev/stdin`) unless it is read `again`.

    Raises:
        UsageError: it is something else.
        Silent: its file system does not answer.
        OSError: as open(2).
    """
    if far := own.served(str(path)):
        reader = own.Reader(far)
        if not stat.S_ISREG(reader.mode_of_file):
            raise UsageError(f"{path} cannot be read: it is not a regular file.", REMEDY)
        return io.BufferedReader(reader, CHUNK)
    is_pipe = not again and stat.S_ISFIFO(os.stat(path).st_mode) and not _has_a_name(path)
    try:
        descriptor = take_named(str(path), PIPE if is_pipe else FILE)
    except Refused as problem:
        raise UsageError(f"{path} cannot be read: it {words(problem)}.", REMEDY) from problem
    os.set_blocking(descriptor, True)
    return open(descriptor, "rb")


def _has_a_name(path: Path) -> bool:
    """Whether a pipe is in a file system: the /proc/PID/fd link of any other pipe leads nowhere (proc_pid_fd(5))."""
    return os.path.exists(os.path.realpath(path))


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """
    Raises:
        BadRecording: a line is too long, perhaps a gigabyte compressed to a megabyte.
    """
    pending = 0
    for chunk in chunks:
        end = chunk.rfind(b"\n")
        pending = len(chunk) - end - 1 + (pending if end < 0 else 0)
        if pending > MOST_LINE:
            raise BadRecording(f"it is longer than {MOST_LINE >> 20} MiB")
        yield chunk


def _unpacked(raw: io.BufferedReader) -> Iterator[bytes]:
    """The decompressed gzip data, perhaps of several parts one after the other.

    Raises:
        _Cut: the last part has no end, since its writer was killed; or other data follows it.
        zlib.error: the data is damaged.
    """
    packed = raw.read1(CHUNK)
    while packed[:2] == MAGIC:
        part = zlib.decompressobj(GZIP)
        while not part.eof:
            if chunk := part.decompress(packed, CHUNK):
                yield chunk
            packed = part.unconsumed_tail
            if not (packed or chunk or part.eof) and not (packed := raw.read1(CHUNK)):
                raise _Cut(CUT)
        packed = part.unused_data
        if len(packed) < len(MAGIC):
            packed += raw.read1(CHUNK)
    if packed.strip(BLANK):
        raise _Cut(FOLLOWED)
