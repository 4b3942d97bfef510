"""A process that notices when it is stopped.

It spins and ticks every 100 us, and at each tick books how long ago the last one was.
A gap alone may only mean a busy machine. But a thread that spins never sleeps by itself: where getrusage(2) counts a
voluntary context switch, somebody stopped it, as a ptrace attach does, or held a lock of its memory in the kernel.
Then the part of the gap in which it neither ran (its CPU clock) nor waited for a CPU (run delay of
proc_pid_schedstat(5)) is booked as a stop.
The figures are counters and histograms in shared memory, so that a watcher subtracts two readings and stops nothing.
"""

from __future__ import annotations

import math
import mmap
import os
import resource
import time
from dataclasses import dataclass
from itertools import accumulate

PERIOD_NS = 100_000
BUCKETS = 200
GROWTH = 1.1
FINEST_NS = 1_000
"""The histograms' buckets grow by a tenth each, from a microsecond to minutes."""

WORK, WALL_NS, CPU_NS, STOPS, STOPPED_NS = range(5)
COUNTERS = 5
SIZE = 8 * (COUNTERS + 2 * BUCKETS)


@dataclass(frozen=True)
class Reading:
    """What the ticker did between two looks at its board."""

    work_per_s: float
    work_per_cpu_s: float
    gap_p999_ms: float
    gap_longest_ms: float
    stops_per_s: float
    stopped_ms_per_s: float
    stop_longest_ms: float


def make_board() -> int:
    """Make the shared memory, a descriptor without a name that ends with its last user."""
    board = os.memfd_create("board", 0)
    os.ftruncate(board, SIZE)
    return board


def read(board: int) -> list[int]:
    """Copy all counters and both histograms."""
    return list(memoryview(os.pread(board, SIZE, 0)).cast("Q"))


def between(before: list[int], after: list[int]) -> Reading:
    """Tell what happened between two readings."""
    grown = [b - a for a, b in zip(before, after, strict=True)]
    seconds = grown[WALL_NS] / 1e9
    gaps = grown[COUNTERS : COUNTERS + BUCKETS]
    stops = grown[COUNTERS + BUCKETS :]
    return Reading(
        work_per_s=grown[WORK] / seconds,
        work_per_cpu_s=grown[WORK] / grown[CPU_NS] * 1e9,
        gap_p999_ms=quantile_ms(gaps, 0.999),
        gap_longest_ms=quantile_ms(gaps, 1.0),
        stops_per_s=grown[STOPS] / seconds,
        stopped_ms_per_s=grown[STOPPED_NS] / 1e6 / seconds,
        stop_longest_ms=quantile_ms(stops, 1.0),
    )


def quantile_ms(histogram: list[int], share: float) -> float:
    """Upper edge of the bucket in which so large a share is reached, milliseconds; 0 for an empty histogram."""
    wanted = share * sum(histogram)
    if not wanted:
        return 0.0
    reached = next(i for i, total in enumerate(accumulate(histogram)) if total >= wanted)
    return FINEST_NS * GROWTH ** (reached + 1) / 1e6


def bucket(nanoseconds: int) -> int:
    """Tell which bucket a duration belongs to."""
    if nanoseconds <= FINEST_NS:
        return 0
    return min(BUCKETS - 1, int(math.log(nanoseconds / FINEST_NS, GROWTH)))


def tick(board: int) -> None:
    """Spin and book, for ever."""
    figures = memoryview(mmap.mmap(board, SIZE)).cast("Q")
    schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    clock, cpu_clock = time.monotonic_ns, time.thread_time_ns
    last, last_cpu, last_delay, last_sleeps = clock(), cpu_clock(), run_delay_ns(schedstat), sleeps()
    work = 0
    while True:
        due = last + PERIOD_NS
        while (now := clock()) < due:
            work += 1
        cpu, delay, slept = cpu_clock(), run_delay_ns(schedstat), sleeps()
        now = clock()
        figures[WORK] = work
        figures[WALL_NS] += now - last
        figures[CPU_NS] = cpu
        figures[COUNTERS + bucket(now - last)] += 1
        if slept != last_sleeps:
            stopped = max(0, now - last - (cpu - last_cpu) - (delay - last_delay))
            figures[STOPS] += slept - last_sleeps
            figures[STOPPED_NS] += stopped
            figures[COUNTERS + BUCKETS + bucket(stopped)] += 1
        last, last_cpu, last_delay, last_sleeps = now, cpu, delay, slept


def sleeps() -> int:
    """How often this thread gave up its CPU although it could run on."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def run_delay_ns(schedstat: int) -> int:
    """Time this thread was ready and waited for a CPU."""
    return int(os.pread(schedstat, 64, 0).split()[1])
