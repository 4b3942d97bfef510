"""A producer and a consumer that put the shim's hooks in and take them out in turns, block by block, on one CPU.

Called as `python -m tests.benchmarks.shim_blocks CASE SECONDS [KEPT]`; prints the CPU time of each block, us an item, as
JSON.  KEPT items more are sent before and kept by both sides to the end.
A class that was just changed is slow at first (type caches, specialized bytecode), so each block begins with some items
that do not count.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator

BLOCKS_OF_ITEMS = {"int": 2000, "simple-int": 2000}
ITEMS_IN_BLOCK = 60
ITEMS_BEFORE = 20
BATCHES_IN_BLOCK, BATCHES_BEFORE = 8, 4
"""Two that do not count are fetched in advance."""
WARM_UP_PAIRS = 4
"""Their figures are thrown away."""

Figures = dict[str, list[float]]


def turns(seconds: float) -> Iterator[bool]:
    """Off, on, on, off … for so long: pairs of neighbours, of which now one and now the other comes first."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield from (False, True, True, False)


def switch(*, on: bool) -> None:
    """Put all hooks in, or take them out."""
    from mpmon.shim import patches

    (patches.put_all_in if on else patches.take_all_out)()


def cpu_us() -> float:
    """CPU time of this process."""
    return time.process_time_ns() / 1e3


def cpu_of_us(pid: int) -> float:
    """CPU time of another process; its clock as MAKE_PROCESS_CPUCLOCK of Linux's posix-timers_types.h, CPUCLOCK_SCHED."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e3


def cpu_of_children_us() -> float:
    """CPU time of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def maker(case: str) -> Callable[[], object]:
    """What makes one item."""
    if case in BLOCKS_OF_ITEMS:
        return lambda: 7
    import torch

    torch.set_num_threads(1)
    if case == "shared-tensor":
        shared = torch.zeros(256).share_memory_()
        return lambda: shared
    if case == "two-tensors":
        return lambda: {"x": torch.zeros(64, 64), "y": torch.zeros(64), "i": 3}
    if case == "device-tensor":
        from tests.ipc import standin

        return lambda: standin.Tensor(256)
    if case == "cuda-tensor":
        return lambda: torch.zeros(256, device="cuda")
    return lambda: torch.zeros(256)


def consume(items, commands, answers, count, kept):
    """A block of items for each command, while so many that came before are kept."""
    held = [items.get() for _ in range(kept)]
    for on in iter(commands.get, None):
        switch(on=on)
        answers.put(0.0)
        take(items, ITEMS_BEFORE)
        answers.put(0.0)
        begin = cpu_us()
        take(items, count)
        answers.put(cpu_us() - begin)
    del held


def give(items, make, count):
    for _ in range(count):
        items.put(make())


def take(items, count):
    for _ in range(count):
        items.get()


def through_a_queue(case: str, seconds: float, kept: int) -> Figures:
    """Both sides together, which keep so many items besides."""
    make = maker(case)
    count = BLOCKS_OF_ITEMS.get(case, ITEMS_IN_BLOCK)
    context = multiprocessing.get_context("fork")
    items = context.SimpleQueue() if case.startswith("simple") else context.Queue(64)
    commands, answers = context.SimpleQueue(), context.SimpleQueue()
    consumer = context.Process(target=consume, args=(items, commands, answers, count, kept))
    consumer.start()
    held = [make() for _ in range(kept)]
    for item in held:
        items.put(item)
    spent: Figures = {"off": [], "on": []}
    for on in turns(seconds):
        switch(on=on)
        commands.put(on)
        answers.get()
        give(items, make, ITEMS_BEFORE)
        answers.get()
        begin = cpu_us()
        give(items, make, count)
        other = answers.get()
        spent["on" if on else "off"].append((cpu_us() - begin + other) / count)
    commands.put(None)
    consumer.join()
    del held
    return spent


def through_a_loader(seconds: float) -> Figures:
    """A batch. The worker, too, puts its hooks in and takes them out, when a sample is asked for after `wanted` has changed."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    wanted = multiprocessing.RawValue("b", 1)

    class Samples(torch.utils.data.Dataset):
        on = True

        def __len__(self):
            return sys.maxsize

        def __getitem__(self, index):
            if self.on != wanted.value:
                self.on = bool(wanted.value)
                switch(on=self.on)
            return torch.rand(3, 64, 64), index

    batches = iter(DataLoader(Samples(), batch_size=32, num_workers=1))
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    spent: Figures = {"off": [], "on": []}
    for on in turns(seconds):
        switch(on=on)
        wanted.value = on
        train(batches, BATCHES_BEFORE)
        begin = cpu_us() + cpu_of_us(worker.pid)
        train(batches, BATCHES_IN_BLOCK)
        spent["on" if on else "off"].append((cpu_us() + cpu_of_us(worker.pid) - begin) / BATCHES_IN_BLOCK)
    return spent


def train(batches, count):
    for values, _ in itertools.islice(batches, count):
        values.sum()


def main(case: str, seconds: float, kept: int = 0) -> None:
    """Measure and print."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if case == "device-tensor":
        from tests.ipc import standin

        standin.install()
    import mpmon.shim

    assert mpmon.shim.install()
    spent = through_a_loader(seconds) if case == "loader" else through_a_queue(case, seconds, kept)
    # Whatever the time, one pair is left.
    spare = min(WARM_UP_PAIRS, len(spent["on"]) - 1)
    print(json.dumps({state: values[spare:] for state, values in spent.items()}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:]))
