"""Rows that did not change are the very same objects as in the round before: `mpmon.model`."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def kept(rows: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The tuple of before, if it holds the very same rows."""
    same = len(rows) == len(before) and all(row is other for row, other in zip(rows, before, strict=True))
    return before if same else rows
