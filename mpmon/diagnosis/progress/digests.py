"""Whole numbers behind the digests of plain variables.

`Frame.plain` has the CRC-32 of what a variable prints. CRC-32 is affine: that of a text with three more digits is the sum of
one part which depends on the text and one which depends on the digits. So a number up to ten millions is found by a thousand
look-ups of its last three digits.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

HEADS, TAILS = 10_000, 1000
"""Numbers below their product are found."""


def whole_number(digest: int) -> int | None:
    """The number that is not negative and has this digest; `None` for a text, a larger number or one with a fraction. One other
    text in 400 is taken for a number.
    """
    small, heads, tails = _tables()
    if digest in small:
        return small[digest]
    found = ((heads.get(digest ^ tail), last) for last, tail in enumerate(tails))
    return next((head * TAILS + last for head, last in found if head is not None), None)


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[int, int], dict[int, int], tuple[int, ...]]:
    """Digests of the numbers below a thousand, the parts of all heads, and those of the three last digits."""
    zeros = zlib.crc32(b"000")
    small = {zlib.crc32(b"%d" % number): number for number in range(TAILS)}
    heads = {zlib.crc32(b"000", zlib.crc32(b"%d" % head)) ^ zeros: head for head in range(1, HEADS)}
    return small, heads, tuple(zlib.crc32(b"%03d" % last) for last in range(TAILS))
