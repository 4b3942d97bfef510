"""Recordings made separately on several machines, as one stream of joined rounds.

They use different clocks, and begin and end at different times. Two rules bring them together:

- a clock is corrected if connections show that it is wrong: the last byte that one end has sent is the last one that
  the other has received, so once a connection has come to rest, the ages reported by both ends differ only by the
  clocks;
- if two machines were not watched at the same time, their recordings are laid beside each other, as if all had ended at
  the same moment. Whatever stood still in a recording did so for as long as the recording says. If the older one were
  stretched to the time of the younger, everything that moved in it would seem to stand still.

A joined round has the latest round of each machine, and comes as soon as each has a new one: in a round without news
from a machine, its processes would seem to stand still.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TypeVar

import msgspec

from mpmon.model import KernelObject, Snapshot
from mpmon.nodes.join import Address, Joiner, Part, ends

T = TypeVar("T")

SKEW_S = 1.0
"""Clocks that differ by less count as equal: nothing is judged by less than a second."""

AT_REST_S = 2.0
"""A connection over which nothing was transferred for this long has come to rest."""

AGREE_S = 0.5
"""Largest difference between the clock offsets that several connections, or both directions of one, show."""

TOGETHER = 0.5
"""Recordings belong together in time if they share this part of the shortest one's time."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known about a recording before its rounds are joined with others."""

    host: str
    moments: tuple[float, ...]
    """The moments of its rounds, by its own clock; at least one."""
    last: Snapshot


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a recording belongs in the common time."""

    offset_s: float = 0.0
    """How far its clock is ahead."""
    later_s: float = 0.0
    """Seconds by which it is moved later than it was made."""

    def moment(self, moment: float) -> float:
        """Converts to the common time."""
        return moment - self.offset_s + self.later_s


def places(timings: Sequence[Timing]) -> list[Place]:
    """Where each of the recordings belongs; independent of their order."""
    offsets = _offsets(timings)
    begins = [row.moments[0] - offset for row, offset in zip(timings, offsets, strict=True)]
    finishes = [row.moments[-1] - offset for row, offset in zip(timings, offsets, strict=True)]
    shortest = min(finish - begin for begin, finish in zip(begins, finishes, strict=True))
    if min(finishes) - max(begins) >= TOGETHER * shortest:
        return [Place(offset_s=offset) for offset in offsets]
    end = max(finishes)
    return [Place(offset_s=offset, later_s=end - finish) for offset, finish in zip(offsets, finishes, strict=True)]


def joined(streams: Sequence[tuple[str, Place, Iterable[Snapshot]]]) -> Iterator[Snapshot]:
    """The joined rounds of recordings, each with the name of its host and its place.

    Raises:
        Unjoinable: as `mpmon.nodes.join.join`.
    """
    joiner = Joiner()
    latest: dict[int, Part] = {}
    for news in _whole(
        (_moments(number, place, rounds) for number, (_, place, rounds) in enumerate(streams)), len(streams)
    ):
        for number, snapshot in news.items():
            host, place, _ = streams[number]
            latest[number] = Part(host=host, offset_s=place.offset_s, later_s=place.later_s, snapshot=snapshot)
        yield joiner.join([latest[number] for number in sorted(latest)])


def count(timings: Sequence[Timing], found: Sequence[Place]) -> int:
    """How many joined rounds there will be."""
    lines = ([(place.moment(at), number, None) for at in row.moments]
             for number, (row, place) in enumerate(zip(timings, found, strict=True)))  # fmt: skip
    return sum(1 for _ in _whole(lines, len(timings)))


_Line = Iterable[tuple[float, int, T]]
"""Moment, number of the recording, and its content then."""


def _whole(lines: Iterable[_Line[T]], machines: int) -> Iterator[dict[int, T]]:
    """The latest content of each machine, as soon as there is new content from all."""
    news: dict[int, T] = {}
    for _, number, told in heapq.merge(*lines, key=lambda row: row[:2]):
        news[number] = told
        if len(news) == machines:
            yield news
            news = {}


def _moments(number: int, place: Place, rounds: Iterable[Snapshot]) -> Iterator[tuple[float, int, Snapshot]]:
    for snapshot in rounds:
        yield place.moment(snapshot.taken_at), number, snapshot


# Clocks


def _offsets(timings: Sequence[Timing]) -> list[float]:
    """How far each clock is ahead of the majority; 0 if unknown."""
    ahead = _ahead(timings)
    found: dict[int, float] = {}
    for start in _by_name(timings):
        group = {start: 0.0} if start not in found else {}
        line = list(group)
        for one in line:
            for other in (other for at, other in ahead if at == one and other not in group):
                group[other] = group[one] - ahead[one, other]
                line.append(other)
        # Most clocks are right, and the right ones agree.
        usual = median(group.values()) if group else 0.0
        found.update({number: offset - usual for number, offset in group.items()})
    return [found[number] for number in range(len(timings))]


def _by_name(timings: Sequence[Timing]) -> list[int]:
    """In an order that does not depend on the order in which they were given."""
    return sorted(range(len(timings)), key=lambda number: (timings[number].host, timings[number].moments[0]))


def _ahead(timings: Sequence[Timing]) -> dict[tuple[int, int], float]:
    """By how much the first of two clocks is ahead of the second, if their connections agree on it."""
    told: dict[tuple[int, int], list[float]] = defaultdict(list)
    for (one, near), (other, far) in _pairs(timings):
        for sender, receiver, sign in ((near, far, 1.0), (far, near, -1.0)):
            if sender.sent_at is not None and receiver.received_at is not None:
                told[one, other].append(sign * (sender.sent_at - receiver.received_at))
    found: dict[tuple[int, int], float] = {}
    for (one, other), differences in told.items():
        middle = median(differences)
        agree = sum(abs(difference - middle) <= AGREE_S for difference in differences)
        if len(differences) > 1 and 2 * agree > len(differences):
            ahead = middle if abs(middle) > SKEW_S else 0.0
            found[one, other], found[other, one] = ahead, -ahead
    return found


_End = tuple[int, KernelObject]
"""Number of the recording, and one of its sockets."""


def _pairs(timings: Sequence[Timing]) -> Iterator[tuple[_End, _End]]:
    """Both ends of the connections between machines that are at rest."""
    found: dict[tuple[Address, Address], list[_End]] = defaultdict(list)
    for number in _by_name(timings):
        for item in timings[number].last.objects:
            if item.peer is None and _is_at_rest(item, timings[number].last.taken_at) and (both := ends(item)):
                found[both].append((number, item))
    for (near, far), items in sorted(found.items()):
        others = found.get((far, near), [])
        if near < far and len(items) == len(others) == 1 and items[0][0] != others[0][0]:
            yield items[0], others[0]


def _is_at_rest(item: KernelObject, now: float) -> bool:
    return max(item.sent_at or now, item.received_at or now) <= now - AT_REST_S
