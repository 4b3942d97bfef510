"""How many thorough looks may be made: a live screen costs little for ever, but may look at a whole job at once.

A look takes about 5 ms of CPU, mpmon's helper included, and a dump by py-spy 10 to 20 more.  The budget fills slowly, and is
filled when the user asks for a look at everything.  Full, it pays for a look at every process of the job, and for those that
come to rest afterwards.
"""

LOOKS_PER_S = 0.5
"""Looks that may be made for ever: about 2.5 ms of CPU a second."""

DUMP = 3
"""A dump by py-spy, in looks."""

SPOT = 0.01
"""A reading of where one main thread is (`spots`), in looks: some 30 µs."""

RESERVE = 64
"""Looks that are kept for processes that come to rest in a call they were not seen in."""


class Budget:
    """Counts looks."""

    def __init__(self, now: float) -> None:
        self.left = self._most = float(RESERVE)
        self._earned_at = now

    def earn(self, now: float) -> None:
        """Add what the time since the round before is worth."""
        self.left = min(self._most, self.left + LOOKS_PER_S * max(1e-3, now - self._earned_at))
        self._earned_at = now

    def spend(self, looks: int, dumps: int = 0) -> None:
        """Take off what was looked at, and for how many of these py-spy was asked."""
        self.left -= looks + DUMP * dumps

    def spend_on_spots(self, count: int) -> bool:
        """Take off so many readings of where main threads are; whether there is enough for them."""
        if self.left < RESERVE / 2:
            return False
        self.left -= SPOT * count
        return True

    def fill(self, processes: int) -> None:
        """Allow a look at everything, in a job of so many processes."""
        self.left = self._most = float(RESERVE + processes)
