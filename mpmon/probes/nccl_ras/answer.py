"""The JSON of NCCL's RAS: communicators, and how many operations each of their ranks has issued."""

from __future__ import annotations

import re
from typing import Any

import msgspec

MOST_COMMUNICATORS, MOST_PEERS = 4096, 1 << 20
"""Limits for one answer; peers of all communicators together."""

_BETWEEN = re.compile(rb"\}(\s*)\{")
_MISSING = re.compile(rb'"missing_ranks"\s*:\s*\[[^\[\]]*\]')


class NotUnderstood(ValueError):
    """Not an answer of NCCL's RAS; the message continues a sentence about it."""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a communicator."""

    rank: int
    """Its rank in the communicator, not in the job."""
    host: str
    pid: int
    """In its own pid namespace."""
    counts: dict[str, int] = {}
    """Number of operations issued, by name: `AllReduce`."""

    @property
    def issued(self) -> int:
        """Number of all operations issued."""
        return sum(self.counts.values())


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that NCCL has not heard from."""

    rank: int
    host: str
    pid: int
    dead: bool = False
    """NCCL considers it dead; else it only did not answer in time."""


class Communicator(msgspec.Struct, frozen=True, kw_only=True):
    """One NCCL communicator, with all its ranks."""

    name: str
    size: int
    peers: tuple[Peer, ...] = ()
    missing: tuple[Missing, ...] = ()


class _Gone(msgspec.Struct):
    considered_dead: bool = False


class _Rank(msgspec.Struct):
    rank: int
    host: str
    pid: int
    collective_counts: dict[str, int] = {}


class _MissingRank(msgspec.Struct):
    rank: int
    host: str
    pid: int
    status: _Gone = msgspec.field(default_factory=_Gone)


class _Communicator(msgspec.Struct):
    hash: str | int
    size: int
    secondary_hash: str | int = ""
    ranks: list[Any] = []
    missing_ranks: list[Any] = []


def communicators(text: bytes) -> tuple[Communicator, ...]:
    """The communicators in an answer to VERBOSE STATUS. A malformed communicator or rank is left out: the others still count.

    Raises:
        NotUnderstood: it is not such an answer.
    """
    if not text.strip():
        raise NotUnderstood("closed the connection without an answer")
    found = _decoded(text)
    if not isinstance(found, dict) or not isinstance(found.get("communicators"), list):
        raise NotUnderstood("answered with something else than NCCL's RAS does")
    rows: list[Communicator] = []
    left = MOST_PEERS
    for value in found["communicators"][:MOST_COMMUNICATORS]:
        if row := _converted(value, _Communicator):
            peers = [peer for item in row.ranks[:left] if (peer := _converted(item, _Rank))]
            gone = [peer for item in row.missing_ranks[:left] if (peer := _converted(item, _MissingRank))]
            left = max(0, left - len(row.ranks) - len(row.missing_ranks))
            rows.append(_row(row, peers, gone))
    return tuple(rows)


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        # NCCL 2.28.9 writes no comma between the entries of `missing_ranks`.
        return msgspec.json.decode(_MISSING.sub(lambda found: _BETWEEN.sub(rb"},\1{", found[0]), text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise NotUnderstood("answered with what is not JSON, or with less than all of it") from problem


def _row(row: _Communicator, peers: list[_Rank], gone: list[_MissingRank]) -> Communicator:
    return Communicator(
        name=_name(row), size=row.size,
        peers=tuple(
            Peer(rank=one.rank, host=one.host, pid=one.pid, counts=one.collective_counts) for one in peers
            if all(count >= 0 for count in one.collective_counts.values())
        ),
        missing=tuple(Missing(rank=one.rank, host=one.host, pid=one.pid, dead=one.status.considered_dead) for one in gone),
    )  # fmt: skip


def _name(row: _Communicator) -> str:
    """Both hashes, since one alone does not always distinguish communicators."""
    parts = (f"{part:x}" if isinstance(part, int) else part for part in (row.hash, row.secondary_hash))
    return ":".join(part for part in parts if part)


def _converted(value: object, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None
