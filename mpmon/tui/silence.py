"""Whether a live watch has said nothing for too long."""

from __future__ import annotations

import time

LIMIT_S = 5.0
"""A watch that says nothing for so long, or for so many rounds, is reported as silent."""


class Silence:
    """The time since the last observation."""

    def __init__(self, interval: float) -> None:
        """`interval` is the time between rounds, seconds."""
        self._limit_s = LIMIT_S * max(1.0, interval)
        self._heard_at = time.monotonic()

    def heard(self) -> None:
        """An observation arrived."""
        self._heard_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return time.monotonic() - self._heard_at

    @property
    def is_long(self) -> bool:
        """It lasts longer than slow rounds explain."""
        return self.seconds > self._limit_s
