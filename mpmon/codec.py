"""Rows to JSON and back: the one format of recordings and of the report.

`msgspec` reads and writes the rows by their type hints, so a new table or field needs nothing here.
Fields that hold their default are left out; fields this version does not know are ignored; a missing field takes its
default, so old recordings stay readable.
What does not print is escaped, because people look at reports and recordings in a terminal.

A recording is JSON lines: a header, then one line a round. A table whose rows are the very same objects as in the round
before is written as `null` (*as before*), because most of a hung job does not change. A recording may come from anywhere.
Everything read from it conforms to the model: types, times within the calendar, 64-bit numbers, and no process that is its
own ancestor; all code that uses rows may rely on that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from mpmon.model import Moment, Process, Row, Snapshot
from mpmon.printable import in_json
from mpmon.rows import same_rows, shared

RECORDING_SCHEMA = "mpmon.recording/1"
REPORT_SCHEMA = "mpmon.report/1"

TABLES = tuple(field.name for field in msgspec.structs.fields(Snapshot) if field.default == ())
"""The tables of a snapshot that a recording may leave out when they did not change."""

R = TypeVar("R", bound=msgspec.Struct)

_encoder = msgspec.json.Encoder()
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_snapshot = msgspec.json.Decoder(Snapshot)
_in_64_bits = msgspec.msgpack.Encoder()
"""Rejects larger numbers; JSON and Python have no limit, and results computed from them need not fit into a float."""

_AS_BEFORE = msgspec.Raw(b"null")

_DAMAGE: dict[type[Exception], str] = {
    msgspec.MsgspecError: "",
    UnicodeDecodeError: "",
    RecursionError: "it is nested too deeply",
    OverflowError: "it has a number of more than 64 bits",
    MemoryError: "it takes more memory than there is",
}
"""Exceptions that reading a line may raise, and the words for each; empty if the message has them."""


class Header(Row, frozen=True, kw_only=True, omit_defaults=False):
    """First line of a recording."""

    schema: str
    mpmon: str
    started_at: Moment


class BadRecording(ValueError):
    """A line that is not a snapshot of a schema this version reads; the message says why."""


def encode(row: msgspec.Struct) -> bytes:
    """One row, report or snapshot as one line of JSON, without the newline."""
    return in_json(_encoder.encode(row))


def decode(text: bytes | str, kind: type[R]) -> R:
    """The inverse of `encode`.

    Raises:
        BadRecording: not JSON, or not of this kind.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except tuple(_DAMAGE) as problem:
        raise BadRecording(_words(problem)) from problem


def encode_round(snapshot: Snapshot, before: Snapshot | None) -> bytes:
    """One line of a recording; tables that are the same objects as in `before` become `null`."""
    line: dict[str, Any] = {name: getattr(snapshot, name) for name in Snapshot.__struct_fields__ if name not in TABLES}
    for table in TABLES:
        rows = getattr(snapshot, table)
        line[table] = None if before is not None and same_rows(rows, getattr(before, table)) else rows
    return in_json(_encoder.encode(line))


def decode_round(text: bytes | str, before: Snapshot | None) -> Snapshot:
    """The inverse of `encode_round`; tables of `null` are taken from `before`, and rows that say the same as there.

    Raises:
        BadRecording: not JSON, not a snapshot, or one that contradicts itself.
    """
    try:
        parts = _parts.decode(text)
        as_before = [table for table in TABLES if parts.get(table) == _AS_BEFORE]
        # Only fields of a snapshot are decoded into objects: there may be any number of others.
        given = {name: parts[name] for name in Snapshot.__struct_fields__ if name in parts and name not in as_before}
        snapshot = _snapshot.decode(_encoder.encode(given))
        _in_64_bits.encode(snapshot)
    except tuple(_DAMAGE) as problem:
        raise BadRecording(_words(problem)) from problem
    if not _is_forest(snapshot.processes):
        raise BadRecording("a process is its own ancestor, or appears twice")
    if before is None:
        return snapshot
    kept = {table: getattr(before, table) for table in as_before}
    told = {table: shared(getattr(snapshot, table), getattr(before, table)) for table in TABLES if table not in kept}
    return msgspec.structs.replace(snapshot, **kept, **told)


def _is_forest(processes: Iterable[Process]) -> bool:
    """Each process appears once, and every chain of parents ends."""
    rows = tuple(processes)
    parents = {row.pid: row.ppid for row in rows}
    ends: set[int] = set()
    for pid in parents:
        way: dict[int, None] = {}
        above = pid
        while above in parents and above not in ends:
            if above in way:
                return False
            way[above] = None
            above = parents[above]
        ends.update(way)
    return len(parents) == len(rows)


def _words(problem: Exception) -> str:
    return next((words for kind, words in _DAMAGE.items() if words and isinstance(problem, kind)), str(problem))
