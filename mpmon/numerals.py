"""Numbers in what a job says of itself: in its environment, its names, its variables. Anything may stand in their place."""

from __future__ import annotations

MOST_DIGITS = 18
"""More do not fit into 64 bits; Python refuses to read some thousands."""


def numeral(text: str) -> int | None:
    """The number that a text is, in the digits 0 to 9; `None` for any other text."""
    # `str.isdigit` knows digits that `int` does not read, such as "²".
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
