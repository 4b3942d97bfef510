"""How many items per second are taken from each queue and by each process, and how many collectives begun. Pure.

A process with the shim counts the items it takes; for others, the ledger of the queue's bound gives the count. A count
belongs to the time of its snapshot, so a rate covers only seconds in which mpmon observed, and gets more exact with them.
A DataLoader creates new queues for each epoch: the seconds between the last sample of one queue and the first sample of the
next count for neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from mpmon.diagnosis.findings import TrendPoint
from mpmon.diagnosis.thresholds import RATE_LEAST_S, RATE_LOOKS, RATE_S


class Rates(NamedTuple):
    """Items per second, where known."""

    by_queue: dict[str, float]
    by_taker: dict[int, float]


def rates(moments: Sequence[TrendPoint], only: Collection[str] | None = None) -> Rates:
    """The recent rates, from these moments, oldest first; of all queues, or `only` of these."""
    queues, takers = _Sums[str](), _Sums[int]()
    counts = [(moment.taken_at, taken(moment, only)) for moment in _last(moments)]
    for (began, before), (ended, now) in pairwise(counts):
        grown = {key: count - before[key] for key, count in now.items() if count >= before.get(key, count + 1)}
        queues.add(((queue, items) for (queue, _), items in grown.items()), ended - began)
        takers.add(((pids[0], items) for (_, pids), items in grown.items() if len(pids) == 1), ended - began)
    return Rates(queues.rates(), takers.rates())


Teller = tuple[int | None, int | None]
"""Rank and pid of a Flight Recorder, as far as recorded."""


def collective_rates(moments: Sequence[TrendPoint]) -> dict[Teller, float]:
    """Collectives per second that each rank began, between the last two readings of its Flight Recorder."""
    readings: dict[Teller, dict[float, int]] = {}
    # Most rounds have the very same rows as the previous one.
    for records in {id(moment.flight_records): moment.flight_records for moment in moments}.values():
        for row in records:
            begun = sum(group.enqueued for group in row.groups)
            readings.setdefault((row.rank, row.pid), {})[row.read_at] = begun
    found = {teller: _rate(sorted(counts.items())) for teller, counts in readings.items()}
    return {teller: rate for teller, rate in found.items() if rate is not None}


def _rate(counts: list[tuple[float, int]]) -> float | None:
    """`None` for a single reading, and if the counter was reset."""
    end, last = counts[-1]
    begin, first = next((row for row in reversed(counts) if end - row[0] >= RATE_LEAST_S), (end, last))
    return (last - first) / (end - begin) if end > begin and last >= first else None


KeyT = TypeVar("KeyT", str, int)


class _Sums(Generic[KeyT]):
    """Items, and the seconds in which they were counted."""

    def __init__(self) -> None:
        self._items: Counter[KeyT] = Counter()
        self._seconds: dict[KeyT, float] = {}

    def add(self, found: Iterable[tuple[KeyT, int]], seconds: float) -> None:
        """Add what was counted in so many seconds."""
        step: Counter[KeyT] = Counter()
        for key, items in found:
            step[key] += items
        for key, items in step.items():
            self._items[key] += items
            self._seconds[key] = self._seconds.get(key, 0.0) + seconds

    def rates(self) -> dict[KeyT, float]:
        """Items per second, if observed for long enough."""
        return {key: self._items[key] / spent for key, spent in self._seconds.items() if spent >= RATE_LEAST_S}


def _last(moments: Sequence[TrendPoint]) -> list[TrendPoint]:
    """Some recent moments, including the newest."""
    within = [moment for moment in moments if moments[-1].taken_at - moment.taken_at <= RATE_S]
    return within[:: -max(1, len(within) // RATE_LOOKS)][::-1]


def taken(moment: TrendPoint, only: Collection[str] | None) -> dict[tuple[str, tuple[int, ...]], int]:
    """Items taken so far, by queue and taker."""
    records = (row for row in moment.queue_records if only is None or row.object in only)
    counted = {(row.object, (row.pid,)): row.gets for row in records if row.gets}
    by_shim = {queue for queue, _ in counted}
    queues = (row for row in moment.queues if only is None or row.object in only)
    told = {(row.object, row.getters): row.taken for row in queues if row.taken is not None}
    return counted | {key: taken for key, taken in told.items() if key[0] not in by_shim}
