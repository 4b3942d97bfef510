"""The difference between two rows with tables: unchanged rows are the same objects in both.

A table is described by its own rows, and by the stretches of the other table between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, islice, pairwise
from operator import is_not
from typing import TypeVar

import msgspec

Places = list[int]
"""Triples of numbers: take rows of the other table from the first up to the second number, then as many own rows as the third
says.
"""

FEW = 2
"""If fewer than one in this many rows is new, tables of equal length are compared position by position."""

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

_NEW = -2
"""Position of a row that is not in the other table."""


def less(row: R, base: R, tables: Iterable[str]) -> tuple[R, dict[str, Places]]:
    """The row with only those table rows that the base does not have, and how to rebuild each table from both.

    A table that is identical to the base's is empty and has no `Places`.
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
    """How to rebuild a table that has these rows of the other one."""
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
