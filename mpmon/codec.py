"""Rows to JSON and back: the one format of recordings and of the report.

`msgspec` reads and writes the rows by their type hints, so a new table or field needs nothing here.
Fields that hold their default are left out; fields this version does not know are ignored; a missing field takes its
default, so old recordings stay readable.
What does not print is escaped, because people look at reports and recordings in a terminal.

A recording is JSON lines: a header, then one line a round.
A table whose rows are the very same objects as in the round before is written as `null` (*as before*), because most of a
hung job does not change.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mpmon.model import Row, Snapshot
from mpmon.printable import in_json
from mpmon.rows import same_rows, shared

RECORDING_SCHEMA = "mpmon.recording/1"
REPORT_SCHEMA = "mpmon.report/1"

TABLES = tuple(field.name for field in msgspec.structs.fields(Snapshot) if field.default == ())
"""The tables of a snapshot that a recording may leave out when they did not change."""

R = TypeVar("R", bound=msgspec.Struct)

_encoder = msgspec.json.Encoder()


class Header(Row, frozen=True, kw_only=True, omit_defaults=False):
    """First line of a recording."""

    schema: str
    mpmon: str
    started_at: float
    """Seconds since the epoch."""


class BadRecording(ValueError):
    """A line that is not a snapshot of a schema this version reads."""


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
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadRecording(str(problem)) from problem


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
        BadRecording: not JSON, not a snapshot, or a table is missing from the first round.
    """
    try:
        line = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadRecording(str(problem)) from problem
    given = {name: value for name, value in line.items() if name not in TABLES or value is not None}
    try:
        snapshot = msgspec.convert(given, type=Snapshot)
    except msgspec.ValidationError as problem:
        raise BadRecording(str(problem)) from problem
    if before is None:
        return snapshot
    kept = {table: getattr(before, table) for table in TABLES if line.get(table, 0) is None}
    told = {table: shared(getattr(snapshot, table), getattr(before, table)) for table in TABLES if line.get(table)}
    return msgspec.structs.replace(snapshot, **kept, **told)
