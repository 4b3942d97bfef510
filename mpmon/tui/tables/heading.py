"""The line with the names of columns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui.line import fit

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = 2
"""Cells before the first column, for a mark."""


def heading(columns: Iterable[tuple[str, int, bool]], *, after: int = 0) -> str:
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
