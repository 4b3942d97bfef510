"""Figures as Markdown: medians over rounds, and ratios within a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN = "–"


@dataclass
class Table:
    """One table with what it shows in words above."""

    title: str
    what: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def skip(self, name: str, why: str) -> None:
        """Add a row for something that cannot be measured here."""
        self.rows.append([name, why, *[UNKNOWN] * (len(self.columns) - 2)])

    def __str__(self) -> str:
        """Render as Markdown."""
        lines = [line(self.columns), line(["---"] * len(self.columns)), *(line(row) for row in self.rows)]
        return f"## {self.title}\n\n{self.what}\n\n" + "\n".join(lines) + "\n"


def middle(values: Sequence[float | None], digits: int = 1) -> str:
    """Median of those that are known."""
    known = [value for value in values if value is not None]
    return f"{median(known):.{digits}f}" if known else UNKNOWN


def ratio(values: Sequence[float | None], base: Sequence[float | None], digits: int = 2) -> str:
    """Median over the rounds of value by base, both of one round."""
    known = [a / b for a, b in zip(values, base, strict=False) if a is not None and b]
    return f"{median(known):.{digits}f}" if known else UNKNOWN


def line(cells: Sequence[str]) -> str:
    """Render one row."""
    return "| " + " | ".join(cells) + " |"
