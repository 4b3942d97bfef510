"""How many thorough looks may be made: a live screen costs little in the long run, but may look at a whole job at once.

A look takes about 5 ms of CPU, mpmon's helper included, and a dump by py-spy 10 to 20 ms more.  The budget fills
slowly, and is filled at once when the user asks for a look at everything.  A full budget pays for a look at every
process of the job, and at the processes that come to rest afterwards.
"""

LOOKS_PER_S = 0.5
"""Looks that may be made in the long run: about 2.5 ms of CPU a second."""

DUMP = 3
"""Cost of a dump by py-spy, in looks."""

SPOT = 0.01
"""Cost of reading where one main thread is (`spots`), in looks: some 30 µs."""

RESERVE = 64
"""Looks reserved for processes that come to rest in a call in which no look has found them."""


class Budget:
    """Counts looks."""

    def __init__(self, now: float) -> None:
        self.left = self._most = float(RESERVE)
        self._earned_at = now

    def earn(self, now: float) -> None:
        """Add the looks earned since the previous round."""
        self.left = min(self._most, self.left + LOOKS_PER_S * max(1e-3, now - self._earned_at))
        self._earned_at = now

    def spend(self, looks: int, dumps: int = 0) -> None:
        """Subtract `looks`, `dumps` of which also asked py-spy."""
        self.left -= looks + DUMP * dumps

    def spend_on_spots(self, count: int) -> bool:
        """Subtract `count` readings of where main threads are; false if the budget is too low for them."""
        if self.left < RESERVE / 2:
            return False
        self.left -= SPOT * count
        return True

    def fill(self, processes: int) -> None:
        """Allow a look at everything, in a job of this many processes."""
        self.left = self._most = float(RESERVE + processes)
