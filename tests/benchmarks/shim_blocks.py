"""A producer and a consumer that put the shim's hooks in and take them out in turns, block by block.

Called as `python -m tests.benchmarks.shim_blocks CASE SECONDS`; prints us an item of each block as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator

BLOCKS_OF_ITEMS = {"int": 2000, "simple-int": 2000}
ITEMS_IN_BLOCK = 300
WARM_UP_PAIRS = 2
"""Their figures are thrown away."""

Figures = dict[str, list[float]]


def turns(seconds: float) -> Iterator[bool]:
    """Off, on, off, on … for so long, and a whole number of pairs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield from (False, True)


def switch(*, on: bool) -> None:
    """Put all hooks in, or take them out."""
    from mpmon.shim import patches

    (patches.put_all_in if on else patches.take_all_out)()


def cpu_us() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
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
    return lambda: torch.zeros(256)


def consume(items, commands, answers, count):
    """A block of items for each command."""
    for on in iter(commands.get, None):
        switch(on=on)
        answers.put(0.0)
        begin = cpu_us()
        for _ in range(count):
            items.get()
        answers.put(cpu_us() - begin)


def through_a_queue(case: str, seconds: float) -> tuple[Figures, Figures]:
    """Wall clock and CPU of both sides."""
    make = maker(case)
    count = BLOCKS_OF_ITEMS.get(case, ITEMS_IN_BLOCK)
    context = multiprocessing.get_context("fork")
    items = context.SimpleQueue() if case.startswith("simple") else context.Queue(64)
    commands, answers = context.SimpleQueue(), context.SimpleQueue()
    consumer = context.Process(target=consume, args=(items, commands, answers, count))
    consumer.start()
    wall: Figures = {"off": [], "on": []}
    cpu: Figures = {"off": [], "on": []}
    for on in turns(seconds):
        switch(on=on)
        commands.put(on)
        answers.get()
        begin, begin_cpu = time.perf_counter(), cpu_us()
        for _ in range(count):
            items.put(make())
        other_cpu = answers.get()
        wall["on" if on else "off"].append((time.perf_counter() - begin) / count * 1e6)
        cpu["on" if on else "off"].append((cpu_us() - begin_cpu + other_cpu) / count)
    commands.put(None)
    consumer.join()
    return wall, cpu


def through_a_loader(seconds: float) -> tuple[Figures, Figures]:
    """Batches of an epoch; its worker is forked with the hooks in or out."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 32 * 60

        def __getitem__(self, index):
            return torch.rand(3, 64, 64), index

    wall: Figures = {"off": [], "on": []}
    for on in turns(seconds):
        switch(on=on)
        batches = iter(DataLoader(Samples(), batch_size=32, num_workers=1))
        next(batches)
        begin = time.perf_counter()
        count = sum(1 for values, _ in batches if values.sum() > 0)
        wall["on" if on else "off"].append((time.perf_counter() - begin) / count * 1e6)
    return wall, {"off": [], "on": []}


def main(case: str, seconds: float) -> None:
    """Measure and print."""
    if case == "device-tensor":
        from tests.ipc import standin

        standin.install()
    import mpmon.shim

    assert mpmon.shim.install()
    wall, cpu = through_a_loader(seconds) if case == "loader" else through_a_queue(case, seconds)
    # Whatever the time, one pair is left.
    spare = min(WARM_UP_PAIRS, len(wall["on"]) - 1)
    kept = [{state: values[spare:] for state, values in figures.items()} for figures in (wall, cpu)]
    print(json.dumps({"wall": kept[0], "cpu": kept[1]}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
