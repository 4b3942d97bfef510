"""How many dumps of stacks may be made: a live screen costs little for ever, but may look at a whole job at once.

A dump takes py-spy about 10 ms of CPU. The budget is full at first, fills slowly, and is filled when the user asks for a look
at everything. Full, it pays for a look at every process of the job, and for those that come to rest afterwards.
"""

from __future__ import annotations

MOST_DUMPS = 256.0
"""Dumps that may be made in one go, of a job that is not larger."""

DUMPS_PER_S = 0.1
"""Dumps a second that may be made for ever: about 1 ms of CPU a second."""

RESERVE = 64.0
"""Dumps that are kept for processes that come to rest in a call they were not seen in."""


class Budget:
    """Counts dumps."""

    def __init__(self, now: float) -> None:
        self.left = self._most = MOST_DUMPS
        self._earned_at = now

    def earn(self, now: float) -> None:
        """Add what the time since the round before is worth."""
        self.left = min(self._most, self.left + DUMPS_PER_S * max(1e-3, now - self._earned_at))
        self._earned_at = now

    def spend(self, dumps: int) -> None:
        """Take off what was dumped."""
        self.left -= dumps

    def fill(self, processes: int) -> None:
        """Allow a look at everything, in a job of so many processes."""
        self.left = self._most = max(MOST_DUMPS, RESERVE + processes)
