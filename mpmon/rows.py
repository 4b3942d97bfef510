"""Rows that did not change between two rounds are the very same objects in both: tables, compared and kept so.

Then to compare two rounds costs an `is` a row, and a recording can leave out what is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import zip_longest
from typing import TypeVar

T = TypeVar("T")


def same_rows(rows: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Whether both hold the very same objects in the same order."""
    return rows is before or (len(rows) == len(before) and all(a is b for a, b in zip(rows, before, strict=True)))


def kept(rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The table of before, if it holds the very same rows."""
    return before if same_rows(rows, before) else rows


def shared(rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The rows, each as the object it was before in that place, if it says the same; the very table of before, if all do."""
    table = tuple(old if old == new else new for old, new in zip_longest(before[: len(rows)], rows))
    return kept(table, before)


def shared_by(key: Callable[[T], Hashable], rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The same where rows come and go: each is compared with the one that had its key before."""
    old = {key(row): row for row in before}
    pairs = ((old.get(key(row), row), row) for row in rows)
    return kept(tuple(known if known == row else row for known, row in pairs), before)
