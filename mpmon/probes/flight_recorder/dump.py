"""Turns the JSON of one rank's Flight Recorder into rows.

The format is that of
`dump_json` in torch/csrc/distributed/c10d/FlightRecorderDetail.hpp (version 2.10, torch 2.13): the entries of a ring of 2,000
operations, and per process group the numbers last enqueued and last completed. A dump made by `pickle` has the same
data plus the calling lines; it is read only after it was converted to JSON.

How reliable the numbers are (tested with torch 2.13 and gloo):

- `collective_seq_id` counts the collectives of a group, the same on every rank; ranks are compared by it.
- The numbers of `pg_status` count gloo's `recv` too, so they are only used where there are no entries.
- gloo never says that an operation began or was completed, only that it is no longer in flight (`retired`).
- gloo leaves the names and members of `pg_config` empty, and its `send` and `recv` out of the entries.
- A rank that never used a group does not name it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from mpmon.model import Collective, FlightRecord, GroupProgress

NEWEST = 4
"""Operations kept per rank and group, besides the oldest unfinished one."""

MOST_GROUPS = 64
"""Groups kept per rank: those used last."""

MOST_RANKS = 1 << 20
"""Larger numbers are not accepted as ranks."""

DEFAULT_GROUP = "default_pg"
"""torch's description of the group of all ranks (torch/distributed/distributed_c10d.py)."""

_PICKLE = b"\x80"
"""First byte of a pickle of protocol 2 and later."""


class BadDump(ValueError):
    """Not the JSON of a Flight Recorder; the message says what it is."""


class _Line(msgspec.Struct):
    filename: str = ""
    line: int = 0


class _Entry(msgspec.Struct):
    collective_seq_id: int
    profiling_name: str
    process_group: tuple[str, str]
    pg_id: int = 0
    state: str = "scheduled"
    retired: bool = False
    is_p2p: bool = False
    input_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    frames: tuple[_Line, ...] = ()


class _Status(msgspec.Struct):
    last_enqueued_collective: int = -1


class _Config(msgspec.Struct):
    name: str = ""
    desc: str = ""
    ranks: str = ""


class Dump(msgspec.Struct, frozen=True):
    """The rows of one rank."""

    record: FlightRecord
    collectives: tuple[Collective, ...] = ()


def is_pickle(start: bytes) -> bool:
    """Whether a file with this beginning was written by `pickle`."""
    return start.startswith(_PICKLE)


def parse_dump(text: bytes | str, *, rank: int | None, pid: int | None, read_at: float) -> Dump:
    """The rows of one rank; `rank` is used for a dump that does not name its rank.

    Raises:
        BadDump: not the JSON of a Flight Recorder.
    """
    dump = _dictionary(text)
    entries = [entry for entry in map(_entry, _listed(dump.get("entries"))) if entry and not entry.is_p2p]
    own = dump.get("rank")
    rank = own if _is_rank(own) else rank
    by_group: dict[tuple[str, str], list[_Entry]] = defaultdict(list)
    for entry in entries:
        by_group[_backend(entry), entry.process_group[0]].append(entry)
    newest = list(by_group)[-MOST_GROUPS:]
    groups, unnamed = _groups(dump, {key: by_group[key] for key in newest})
    record = FlightRecord(rank=rank, pid=pid, read_at=read_at, groups=tuple(groups), unnamed=unnamed)
    return Dump(record, tuple(row for key in newest for row in _operations(by_group[key], rank, pid)))


def merged(dumps: Sequence[Dump]) -> Dump:
    """Merges the two recorders of one rank: that of CPU groups and that of device groups."""
    records = [dump.record for dump in dumps]
    groups = {(group.backend, group.name): group for record in records for group in record.groups}
    record = msgspec.structs.replace(
        records[0], groups=tuple(groups.values()), unnamed=sum(record.unnamed for record in records)
    )
    return Dump(record, tuple(row for dump in dumps for row in dump.collectives))


def _dictionary(text: bytes | str) -> dict[str, Any]:
    if isinstance(text, bytes) and is_pickle(text):
        raise BadDump("is a pickle")
    try:
        dump = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise BadDump("is not JSON") from problem
    if not isinstance(dump, dict) or not {"entries", "pg_status", "pg_config"} & dump.keys():
        raise BadDump("is JSON, but not from a Flight Recorder: it has neither entries nor pg_status")
    return dump


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: object) -> Iterator[tuple[str, Any]]:
    yield from ((str(name), item) for name, item in value.items()) if isinstance(value, dict) else ()


def _entry(value: object) -> _Entry | None:
    """An entry that this version cannot read is left out: the others still count."""
    try:
        entry = msgspec.convert(value, _Entry, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None
    return entry if 0 <= entry.collective_seq_id < 1 << 63 else None


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_RANKS


def _backend(entry: _Entry) -> str:
    """`gloo` of `gloo:all_reduce`."""
    backend, colon, _ = entry.profiling_name.partition(":")
    return backend if colon else ""


def _operation(entry: _Entry) -> str:
    return entry.profiling_name.rpartition(":")[2]


def _groups(dump: dict[str, Any], by_group: dict[tuple[str, str], list[_Entry]]) -> tuple[list[GroupProgress], int]:
    """The rank's progress in each group, and the number of groups known only by a number that differs from rank to rank."""
    configs = [config for _, value in _items(dump.get("pg_config")) if (config := _converted(value, _Config))]
    members = {config.name: ranks for config in configs if config.name and (ranks := _ranks(config.ranks))}
    groups = [_progress(key, rows, members.get(key[1])) for key, rows in by_group.items()]
    known = {str(entry.pg_id) for rows in by_group.values() for entry in rows}
    backends = {backend for backend, _ in by_group}
    unnamed = 0
    for number, value in _items(dump.get("pg_status")):
        status = _converted(value, _Status)
        if status is None or number in known:
            continue
        name = _name_without_entries(number, configs)
        if name is None:
            unnamed += 1
            continue
        groups.append(GroupProgress(
            backend=next(iter(backends)) if len(backends) == 1 else "", name=name, description=DEFAULT_GROUP,
            ranks=members.get(name), enqueued=max(0, status.last_enqueued_collective), counted=False,
        ))  # fmt: skip
    return groups[:MOST_GROUPS], unnamed


def _name_without_entries(number: str, configs: list[_Config]) -> str | None:
    """`pg_status` is keyed by numbers that each rank assigns itself; the first group created is the one of all ranks."""
    if number != "0":
        return None
    named = [config.name for config in configs if config.name and config.desc == DEFAULT_GROUP]
    return named[0] if named else "0"


def _converted(value: object, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None


def _ranks(text: str) -> tuple[int, ...] | None:
    """`[0, 1, 2]`."""
    words = text.strip("[] ").split(",")
    if not all(word.strip().isdecimal() and len(word) < 9 for word in words):
        return None
    return tuple(map(int, words))


def _progress(key: tuple[str, str], rows: list[_Entry], ranks: tuple[int, ...] | None) -> GroupProgress:
    numbers = [entry.collective_seq_id for entry in rows]
    open_ones = [entry.collective_seq_id for entry in rows if not _finished(entry)]
    return GroupProgress(
        backend=key[0], name=key[1], description=rows[-1].process_group[1], ranks=ranks, enqueued=max(numbers),
        waits_in=min(open_ones, default=None),
    )  # fmt: skip


def _finished(entry: _Entry) -> bool:
    return entry.retired or entry.state == "completed"


def _operations(rows: list[_Entry], rank: int | None, pid: int | None) -> Iterator[Collective]:
    """The newest operations, and the oldest unfinished one."""
    by_number = {entry.collective_seq_id: entry for entry in rows}
    kept = set(sorted(by_number)[-NEWEST:])
    open_ones = [number for number, entry in by_number.items() if not _finished(entry)]
    kept |= {min(open_ones)} if open_ones else set()
    for number in sorted(kept):
        entry = by_number[number]
        line = next((row for row in entry.frames if "/torch/" not in row.filename and row.line > 0), None)
        yield Collective(
            rank=rank, pid=pid, backend=_backend(entry), group=entry.process_group[0], number=number,
            operation=_operation(entry), state="completed" if _finished(entry) else entry.state,
            sizes=entry.input_sizes, dtypes=entry.input_dtypes,
            file=line.filename if line else None, line=line.line if line else None,
        )  # fmt: skip
