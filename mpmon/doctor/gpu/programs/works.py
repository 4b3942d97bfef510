"""Keeps the GPU busy in different ways, one command per line: `work SECONDS`, `spin SECONDS`, `rest`.

Answers at once and continues until the next command or for SECONDS.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

import torch

SIDE = 4096
"""Side of the matrices that are multiplied: 3 of them of 32 MiB each."""
TURN_S = 0.05
"""Duration of one spin of the GPU; `torch.cuda._sleep` counts in cycles."""
CYCLES_PER_S = 1_500_000_000
"""About the clock of an SM: the exact duration of a turn does not matter."""


def is_asked() -> bool:
    """Whether there is another command."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def work(until: float) -> None:
    """Multiply matrices."""
    one = torch.ones(SIDE, SIDE, dtype=torch.float16, device="cuda")
    other, out = torch.ones_like(one), torch.empty_like(one)
    while time.monotonic() < until and not is_asked():
        for _ in range(20):
            torch.mm(one, other, out=out)
        torch.cuda.synchronize()


def spin(until: float) -> None:
    """Run a kernel that only waits, as one of NCCL does."""
    while time.monotonic() < until and not is_asked():
        # Two at a time, so that one is always running.
        for _ in range(2):
            torch.cuda._sleep(int(TURN_S * CYCLES_PER_S))  # pyright: ignore[reportPrivateUsage]
        torch.cuda.synchronize()


def main() -> None:
    """Answer each command line."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    while line := sys.stdin.readline():
        word, *more = line.split()
        print(json.dumps({"does": word}), flush=True)
        if word != "rest":
            (work if word == "work" else spin)(time.monotonic() + float(more[0]))


if __name__ == "__main__":
    main()
