"""What of a row with tables is not in another one: rows that did not change are the very same objects in both.

A table is told by rows of its own, and by stretches of the other one's table between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, islice, pairwise
from operator import is_not
from typing import TypeVar

import msgspec

Places = list[int]
"""Three numbers again and again: rows of the other table from the first up to the second, then so many of its own."""

FEW = 2
"""Where fewer rows than one of so many are new, tables of one length are compared place by place."""

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

_NEW = -2
"""Where a row is in the other table: nowhere, nor after any."""


def less(row: R, base: R, tables: Iterable[str]) -> tuple[R, dict[str, Places]]:
    """The row with only those rows in its tables that the base's have not, and how each table is made of both.

    A table that is the very same as the base's is empty, and has no places.
    """
    places: dict[str, Places] = {}
    new: dict[str, tuple[object, ...]] = {}
    for table in tables:
        now, before = getattr(row, table), getattr(base, table)
        if now is not before:
            places[table], new[table] = _differences(now, before)
        elif now:
            new[table] = ()
    return msgspec.structs.replace(row, **new), places


def whole(row: R, base: R, tables: Iterable[str], places: dict[str, Places]) -> R:
    """The inverse of `less`."""
    made = {table: getattr(base, table) for table in tables}
    made |= {table: _together(stretches, getattr(row, table), made[table]) for table, stretches in places.items()}
    return msgspec.structs.replace(row, **made)


def _differences(now: Sequence[T], before: Sequence[T]) -> tuple[Places, tuple[T, ...]]:
    if len(now) == len(before):
        changed = list(compress(range(len(now)), map(is_not, now, before)))
        if FEW * len(changed) < len(now):
            places = [number for at, end in pairwise((-1, *changed, len(now))) for number in (at + 1, end, 1)]
            places[-1] = 0
            return places, tuple(map(now.__getitem__, changed))
    known = {id(row): place for place, row in enumerate(before)}
    found = [known.get(id(row), _NEW) for row in now]
    return list(_stretches(found)), tuple(row for row, place in zip(now, found, strict=True) if place == _NEW)


def _stretches(found: Iterable[int]) -> Iterator[int]:
    """How a table is made that has these rows of the other one."""
    start = end = new = 0
    for place in found:
        if place == _NEW:
            new += 1
            continue
        if new or place != end:
            yield from (start, end, new)
            start, new = place, 0
        end = place + 1
    yield from (start, end, new)


def _together(places: Places, own: Iterable[T], before: Sequence[T]) -> tuple[T, ...]:
    left, numbers = iter(own), iter(places)
    parts = ((before[start:end], islice(left, new)) for start, end, new in zip(numbers, numbers, numbers, strict=True))
    return tuple(chain.from_iterable(chain.from_iterable(parts)))
