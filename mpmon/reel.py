"""Past observations, so that a view can look back: all of the last while, ever fewer of the time before.

Rows that did not change are the same objects in both observations, so a job that hangs costs little to keep.
Around a change of the verdict none is dropped as long as others can be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import zip_longest
from operator import is_

from mpmon.codec import TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The first frame of the screen needs no diagnosis and should not wait for it.
    from mpmon.diagnosis.findings import Observation

KEPT_BYTES = 64 << 20
"""Of a live job: a minute in full of 512 processes that all run, hours of a few."""

ROW_BYTES, PLACE_BYTES = 500, 8
"""A row, and its place in a table: measured, roughly, on the rows of processes and threads."""


class Reel:
    """Observations in the order they were made. One thread adds to it, any may look."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        """With `most_bytes` 0 only the newest is kept."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: list[Observation] = []
        """Only appended to or replaced as a whole, so that readers need no lock."""

    def add(self, observation: Observation) -> None:
        """One more; its number is above all others."""
        self._bytes += _weight(observation, self.newest)
        self._kept.append(observation)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            self._kept = _thinned(self._kept)
            self._bytes = sum(map(_weight, self._kept, (None, *self._kept)))

    @property
    def newest(self) -> Observation | None:
        """The last one that was added."""
        return next(reversed(self._kept), None)

    def before(self, number: int) -> Observation | None:
        """The last one that is kept with a lower number."""
        kept = self._kept
        return _place(kept, bisect_left(kept, number, key=_number) - 1)

    def after(self, number: int) -> Observation | None:
        """The first one that is kept with a higher number."""
        kept = self._kept
        return _place(kept, bisect_right(kept, number, key=_number))

    def at(self, moment: float) -> Observation | None:
        """The first one that is kept of this moment or later."""
        kept = self._kept
        return _place(kept, bisect_left(kept, moment, key=_taken_at))

    def hang(self) -> Observation | None:
        """The one in which the latest hang began; `None` when none of those that are kept hangs.

        A hang older than all that are kept shows in none of them until it was found.
        """
        kept = self._kept
        last = next((place for place in reversed(range(len(kept))) if _hangs(kept[place])), None)
        if last is None:
            return None
        since = kept[last].diagnosis.since
        if since is not None and since >= _taken_at(kept[0]):
            return self.at(since)
        first = next((place + 1 for place in reversed(range(last)) if not _hangs(kept[place])), 0)
        return kept[first]


def _place(kept: list[Observation], place: int) -> Observation | None:
    return kept[place] if 0 <= place < len(kept) else None


def _hangs(observation: Observation) -> bool:
    return observation.diagnosis.verdict.value == "hung"


def _number(observation: Observation) -> int:
    return observation.number


def _taken_at(observation: Observation) -> float:
    return observation.snapshot.taken_at


def _thinned(kept: list[Observation]) -> list[Observation]:
    """Without every second one of the older half; without the oldest where each of them shows a change."""
    half = len(kept) // 2
    fewer = [row for place, row in enumerate(kept) if place >= half or place % 2 or _turns(kept, place)]
    return fewer if len(fewer) < len(kept) else kept[1:]


def _turns(kept: list[Observation], place: int) -> bool:
    """The verdict of the one before or after it is another."""
    around = kept[max(0, place - 1) : place + 2]
    return len({row.diagnosis.verdict for row in around}) > 1


def _weight(now: Observation, before: Observation | None) -> int:
    """About how many bytes it needs beside the one before, with which it shares what did not change."""
    places = fresh = 0
    for rows, known in zip_longest(_tables(now), _tables(before) if before else ()):
        if rows is not known:
            places += len(rows)
            fresh += len(rows) - sum(map(is_, rows, known or ()))
    return PLACE_BYTES * places + ROW_BYTES * (fresh + 1)


def _tables(observation: Observation) -> list[tuple[object, ...]]:
    return [*(getattr(observation.snapshot, table) for table in TABLES), observation.diagnosis.processes]
