"""A consumer keeps the tensors it gets and lets go of them slowly: on a GPU if there is one, else in shared memory.

Nothing hangs.  What is to be seen is who holds whose memory, and through which queue and from which line it came: the
queue shim is on.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from multiprocessing.queues import Queue

import torch
import torch.multiprocessing

import mpmon.shim
from mpmon.demo.handshake import ready

# The demo's own folder, so that nothing of it stays. Children inherit the variable, and turn the shim on as their parent did.
os.environ["MPMON_RUN_DIR"] = tempfile.gettempdir()
mpmon.shim.install()

KEPT = 24
"""Tensors the consumer holds at most."""
NUMBERS = 1 << 18
"""Of 4 bytes, in one tensor."""
PERIOD_S = 0.2


def device() -> str:
    """Where tensors are made."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def make_weights(step: int) -> torch.Tensor:
    """What the producer sends in one step."""
    return torch.full((NUMBERS,), float(step), device=device())


def publish(weights: Queue[torch.Tensor]) -> None:
    """Send new weights for ever."""
    step = 0
    while True:
        weights.put(make_weights(step))
        time.sleep(PERIOD_S)
        step += 1


def follow(weights: Queue[torch.Tensor]) -> None:
    """Take weights as they come, and keep many of them."""
    kept: deque[torch.Tensor] = deque(maxlen=KEPT)
    while True:
        kept.append(weights.get())
        if len(kept) == KEPT // 4:
            ready()


def main() -> None:
    """One process publishes, another one follows."""
    context = torch.multiprocessing.get_context("spawn")
    weights = context.Queue(4)
    context.Process(target=follow, args=(weights,), daemon=True).start()
    publish(weights)


if __name__ == "__main__":
    main()
