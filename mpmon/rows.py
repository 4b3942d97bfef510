"""Tables that share unchanged rows: a row that did not change between two rounds is the same object in both.

Comparing two rounds then costs one `is` per row, and a recording can leave out unchanged rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import zip_longest
from typing import TypeVar

T = TypeVar("T")


def same_rows(rows: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Whether both hold the same objects in the same order."""
    return rows is before or (len(rows) == len(before) and all(a is b for a, b in zip(rows, before, strict=True)))


def kept(rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The previous table, if it holds the same objects."""
    return before if same_rows(rows, before) else rows


def shared(rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The rows, each replaced by the previous object at that position if equal; the previous table itself if all are."""
    table = tuple(old if old == new else new for old, new in zip_longest(before[: len(rows)], rows))
    return kept(table, before)


def shared_by(key: Callable[[T], Hashable], rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The same for tables whose rows come and go: each is compared with the previous row of its key."""
    old = {key(row): row for row in before}
    pairs = ((old.get(key(row), row), row) for row in rows)
    return kept(tuple(known if known == row else row for known, row in pairs), before)
