"""Times of the kernel as seconds since the epoch: when a thread last ran, when its sleep ends."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

from mpmon.probes.files import Proc
from mpmon.probes.kernel.call import Call
from mpmon.probes.syscalls import SLEEPS

_EXEC_START = re.compile(rb"^se\.exec_start\s*:\s*([\d.]+)", re.MULTILINE)
"""In /proc/PID/task/TID/sched, milliseconds of the scheduler's clock of the CPU that the thread ran on."""

LAG_FOR_S = 60.0
"""A measured lag of a CPU is used this many seconds: if a hundredth of the time is taken from the CPU, it is wrong by 0.6
seconds at the end.
"""


class Clocks:
    """The scheduler's clocks and the clocks of sleeps, all relative to one moment."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc = proc
        self._now = now
        self._now_ms = time.monotonic() * 1e3

    def ran_at(self, pid: int, tid: int, cpu: int | None) -> float | None:
        """When a thread last ran, on that CPU: its `se.exec_start` by the clock of the CPU. `None` if it is unknown."""
        last = _exec_start(self._proc, pid, "task", tid)
        lag = None if last is None or cpu is None else _lag_ms(self._proc, cpu)
        if last is None or lag is None:
            return None
        return self._now - max(0.0, self._now_ms - lag - last) / 1e3

    def wakes_at(self, call: Call, ran_at: float | None) -> float | None:
        """When a sleep, or a wait for a lock with a time limit, ends by itself."""
        if call.name not in SLEEPS and call.name not in ("select", "pselect6", "futex"):
            return None
        if deadline := call.deadline():
            clock, moment = deadline
            return self._now + moment - _clock_now(clock)
        pause = call.pause()
        return None if pause is None else (ran_at or self._now) + pause


_lags: dict[tuple[str, int], tuple[float, float | None]] = {}
"""By tree and CPU: when it was measured, and the result."""


def _lag_ms(proc: Proc, cpu: int) -> float | None:
    """How far the scheduler's clock of a CPU is behind CLOCK_MONOTONIC, milliseconds; `None` if mpmon may not run there.

    The clock leaves out what the hypervisor took from the CPU, and on most kernels what interrupts took (`update_rq_clock_task`
    of kernel/sched/core.c), so the clocks of two CPUs differ by seconds after a day, and by minutes after months.
    """
    measured_at, lag = _lags.get((proc.root, cpu), (float("-inf"), None))
    if time.monotonic() - measured_at > LAG_FOR_S:
        lag = _measured_lag_ms(proc, cpu)
        _lags[proc.root, cpu] = time.monotonic(), lag
    return lag


def _measured_lag_ms(proc: Proc, cpu: int) -> float | None:
    """The calling thread moves to the CPU for a moment: the start of its time there is now, by the CPU's clock."""
    allowed = os.sched_getaffinity(0)
    if cpu not in allowed:
        return None
    try:
        os.sched_setaffinity(0, {cpu})
        began = _exec_start(proc, "thread-self")
        return None if began is None else time.monotonic() * 1e3 - began
    except OSError:
        return None
    finally:
        # The set of allowed CPUs may have changed meanwhile, and then the kernel has chosen others.
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def _exec_start(proc: Proc, *thread: str | int) -> float | None:
    try:
        match = _EXEC_START.search(proc.read(*thread, "sched"))
    except OSError:
        return None
    # The scheduler sets it to 0 when it moves a sleeping task to another CPU: when it last ran is then unknown.
    return (float(match[1]) or None) if match else None


def _clock_now(clock: int) -> float:
    """A clock by its number in linux/time.h; time namespaces of a container are not corrected."""
    return time.clock_gettime(clock)
