"""Times of the kernel as seconds since the epoch: when a thread last ran, when its sleep ends."""

from __future__ import annotations

import re
import time

from mpmon.probes.files import Proc
from mpmon.probes.kernel.call import Call
from mpmon.probes.syscalls import SLEEPS

_EXEC_START = re.compile(rb"^se\.exec_start\s*:\s*([\d.]+)", re.MULTILINE)
"""In /proc/PID/task/TID/sched, milliseconds of the scheduler's clock."""


class Clocks:
    """The scheduler's clock and the clocks of sleeps, all relative to one moment."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._now = now
        self._own = self._exec_start("thread-self")

    def ran_at(self, pid: int, tid: int) -> float | None:
        """When the thread last ran: its `se.exec_start` relative to mpmon's own, which is now (error up to 0.2 s)."""
        last = self._exec_start(pid, "task", tid)
        if last is None or self._own is None:
            return None
        return self._now - max(0.0, self._own - last) / 1e3

    def wakes_at(self, call: Call, ran_at: float | None) -> float | None:
        """When a sleep, or a wait for a lock with a time limit, ends by itself."""
        if call.name not in SLEEPS and call.name not in ("select", "pselect6", "futex"):
            return None
        if deadline := call.deadline():
            clock, moment = deadline
            return self._now + moment - _clock_now(clock)
        pause = call.pause()
        return None if pause is None else (ran_at or self._now) + pause

    def _exec_start(self, *thread: str | int) -> float | None:
        try:
            match = _EXEC_START.search(self._proc.read(*thread, "sched"))
        except OSError:
            return None
        # The scheduler sets it to 0 when it moves a sleeping task to another CPU: when it last ran is then unknown.
        return (float(match[1]) or None) if match else None


def _clock_now(clock: int) -> float:
    """A clock by its number in linux/time.h; time namespaces of a container are not corrected."""
    return time.clock_gettime(clock)
