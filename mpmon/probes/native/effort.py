"""The work limit of one reading: counted, not timed, so that the same process gives the same result on any machine."""

from __future__ import annotations

MOST = 100_000
"""Steps for one thread: words of its stack that are tried, jumps that are followed, frames. Some hundred milliseconds."""

MOST_TOGETHER = 400_000
"""Steps for all threads of one process together."""


class Spent(Exception):
    """The work limit is exhausted."""


class Effort:
    """Steps that are left: for one thread at a time, and for all of them."""

    def __init__(self, most: int = MOST, together: int = MOST_TOGETHER) -> None:
        self._most, self._together = most, together
        self._left = 0

    def begin(self) -> None:
        """Start the next thread."""
        self._together += self._left
        self._left = min(self._most, self._together)
        self._together -= self._left

    def take(self, steps: int = 1) -> None:
        """
        Raises:
            Spent: there are none left.
        """
        self._left -= steps
        if self._left < 0:
            self._left = 0
            raise Spent
