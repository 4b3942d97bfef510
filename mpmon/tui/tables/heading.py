"""The line with the names of columns. Pure."""

from __future__ import annotations

from functools import lru_cache

from mpmon.tui.line import fit

MARK = 2
"""Cells before the first column, for a mark."""


@lru_cache(maxsize=64)
def heading(columns: tuple[tuple[str, int, bool], ...], *, after: int = 0) -> str:
    """Names of columns above their columns, which are one cell apart.

    Args:
        columns: Name, width and whether it stands at the right, of each column; one of width 0 is left out.
        after: Cells that are left to others: columns that begin in them go without a name.
    """
    names, at = " " * after, MARK
    for name, width, right in columns:
        if width and at >= after:
            names = fit(names, at) + fit(name, width, right=right)
        at += width + 1 if width else 0
    return names
