"""Bars and histories made of characters. Pure; the ASCII filter knows each of them."""

from __future__ import annotations

from functools import lru_cache

LEVELS = "▁▂▃▄▅▆▇"
"""From nothing to all. The full block is left out, or the histories of busy GPUs would run into one another."""

GAP = " "
"""Nothing was read then, which is not the same as nothing."""


@lru_cache(maxsize=4096)
def sparkline(levels: tuple[int | None, ...]) -> str:
    """One character a level, a gap for `None`."""
    return "".join(GAP if level is None else LEVELS[level] for level in levels)


def level(percent: float) -> int:
    """The level of a share, from 0 on."""
    return min(len(LEVELS) - 1, max(0, int(percent * len(LEVELS) / 100)))


@lru_cache(maxsize=1024)
def bar(percent: int | None, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar, in steps of half a cell; unknown has neither."""
    if percent is None:
        return ("", " " * width)
    halves = min(2 * width, max(0, round(percent * 2 * width / 100)))
    filled = "━" * (halves // 2) + "╸" * (halves % 2)
    return (filled, "─" * (width - len(filled)))
