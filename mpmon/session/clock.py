"""Time as an argument: only the live clock knows what time it is."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The clock that the sampler needs."""

    def now(self) -> float:
        """Seconds since the epoch; never steps back."""
        ...

    def wait(self, seconds: float) -> bool:
        """Return after `seconds`, or earlier when woken; whether it was woken."""
        ...


class LiveClock:
    """The machine's time, anchored once: a correction of the system's clock does not make durations jump."""

    def __init__(self) -> None:
        self._anchor = time.time() - time.monotonic()
        self._woken = threading.Event()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._anchor + time.monotonic()

    def cpu_s(self) -> float:
        """CPU time of the calling thread, seconds."""
        return time.thread_time()

    def wait(self, seconds: float) -> bool:
        """Sleep, unless `wake` was called since the last wait; whether it was called."""
        woken = self._woken.wait(max(0.0, seconds))
        self._woken.clear()
        return woken

    def wake(self) -> None:
        """End the current or the next wait; safe from any thread."""
        self._woken.set()
