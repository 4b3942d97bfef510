"""Results of the previous round, reused if every input is the very same object.

Rows that did not change between two rounds are shared, so in a job that stands still most joins and readings are
reused. It remembers results only: with or without it, a diagnosis is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import compress
from operator import is_, is_not
from typing import Any, TypeVar

T = TypeVar("T")

_Kept = tuple[tuple[object, ...], Any]
"""The inputs of a result, and the result."""


def others(before: Sequence[T], now: Sequence[T]) -> list[tuple[T, T]] | None:
    """Rows replaced since the previous round, each with its successor; `None` if their number changed."""
    if before is now or len(before) != len(now):
        return [] if before is now else None
    return [(before[at], now[at]) for at in compress(range(len(now)), map(is_not, before, now))]


class Memo:
    """The memory of one stream of rounds."""

    def __init__(self) -> None:
        self._now: dict[Hashable, _Kept] = {}
        self._before: dict[Hashable, _Kept] = {}
        self._notes: dict[str, Any] = {}

    def turn(self) -> None:
        """Another round begins: drop what the last one did not use."""
        self._before, self._now = self._now, {}

    def same(self, name: Hashable, make: Callable[..., T], *of: object) -> T:
        """The result of `make` for these objects, which must not change and must be all that it depends on.

        It is reused if it was made, under this name, from the very same objects.
        """
        kept = self._now.get(name)
        if kept is None:
            kept = self._now[name] = self._before.get(name) or (of, make(*of))
        if not all(map(is_, kept[0], of)):
            kept = self._now[name] = (of, make(*of))
        return kept[1]

    def note(self, name: str, made: object) -> None:
        """Keep a result until another is noted by this name."""
        self._notes[name] = made

    def last(self, name: str) -> Any:
        """What was noted last; `None` if nothing was."""
        return self._notes.get(name)
