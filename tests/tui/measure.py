"""What a refresh costs: `python -m tests.tui.measure [PROCESSES] [BUSY] [--profile]`.

Prints the CPU time of one observation from its arrival to the painted screen, without the cost of the test harness.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import sys
import time
from typing import TYPE_CHECKING

from mpmon.tui.app import MonitorApp
from mpmon.tui.messages import Observed
from tests.tui.fakes import NOW, FakeWatch, many

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation

ROUNDS = 60


async def _cpu_ms(pilot: Pilot[int], observations: list[Observation | None]) -> float:
    """CPU milliseconds for each round; `None` is a round in which nothing arrives."""
    spent = time.process_time()
    for observation in observations:
        if observation is not None:
            pilot.app.post_message(Observed(observation))
        await pilot.pause()
    return (time.process_time() - spent) * 1000 / len(observations)


async def _measure(processes: int, busy: int, *, profile: bool) -> None:
    app = MonitorApp(FakeWatch(many(processes)))
    rounds = [many(processes, now=NOW + n, busy=busy) for n in range(ROUNDS)]
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        await _cpu_ms(pilot, [*rounds[:5]])
        idle = await _cpu_ms(pilot, [None] * ROUNDS)
        profiler = cProfile.Profile()
        if profile:
            profiler.enable()
        full = await _cpu_ms(pilot, [*rounds])
        profiler.disable()
    app.stop_feed()
    sys.stdout.write(
        f"{processes} processes, {busy} change: {full - idle:.2f} ms CPU a refresh (harness {idle:.2f} ms)\n"
    )
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)


def main() -> None:
    """Reads the arguments."""
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    processes, busy = (*numbers, 256, 8)[:2] if len(numbers) != 1 else (numbers[0], 8)
    asyncio.run(_measure(processes, busy, profile="--profile" in sys.argv))


if __name__ == "__main__":
    main()
