"""What was made in the round before, taken over where all it was made of is the very same object.

Rows that did not change between two rounds are shared, so of a job that stands still most joins and readings are those of
a second ago.  It is a memory of results only: with or without it a diagnosis is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import compress
from operator import is_, is_not
from typing import Any, TypeVar

T = TypeVar("T")

_Kept = tuple[tuple[object, ...], Any]
"""What something was made of, and what was made."""


def others(before: Sequence[T], now: Sequence[T]) -> list[tuple[T, T]] | None:
    """Rows that are other objects than in the round before, each with that one; `None` where there are more or fewer."""
    if before is now or len(before) != len(now):
        return [] if before is now else None
    return [(before[at], now[at]) for at in compress(range(len(now)), map(is_not, before, now))]


class Memo:
    """Of one stream of rounds."""

    def __init__(self) -> None:
        self._now: dict[Hashable, _Kept] = {}
        self._before: dict[Hashable, _Kept] = {}
        self._notes: dict[str, Any] = {}

    def turn(self) -> None:
        """Another round begins: what nobody asked for in the last one is forgotten."""
        self._before, self._now = self._now, {}

    def same(self, name: Hashable, make: Callable[..., T], *of: object) -> T:
        """What `make` makes of these objects, which are not to change and must be all that it depends on.

        It is made anew unless it was made, by this name, of the very same ones.
        """
        kept = self._now.get(name)
        if kept is None:
            kept = self._now[name] = self._before.get(name) or (of, make(*of))
        if not all(map(is_, kept[0], of)):
            kept = self._now[name] = (of, make(*of))
        return kept[1]

    def note(self, name: str, made: object) -> None:
        """Keep what was made until another is noted by this name."""
        self._notes[name] = made

    def last(self, name: str) -> Any:
        """What was noted last, `None` before."""
        return self._notes.get(name)
