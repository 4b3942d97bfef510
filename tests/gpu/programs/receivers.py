"""A producer of CUDA memory and its receivers: `receivers TENSORS COUNT` says its pid and theirs, and all of them stand.

TENSORS is the module that makes tensors, as for `mpmon.doctor.gpu.programs.shares`.  Each receiver has a context of its own
before it receives: with the stand-in of CUDA nothing else would make one.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
from multiprocessing.queues import SimpleQueue
from typing import Any

import mpmon.shim

if "MPMON_RUN_DIR" in os.environ:
    mpmon.shim.install()

BYTES = 1024


def receive(tensors: str, items: SimpleQueue[object], received: SimpleQueue[int]) -> None:
    """Keep the one tensor that comes."""
    from mpmon.doctor.gpu.programs.holds import Cuda

    importlib.import_module(tensors)
    cuda = Cuda()
    cuda.context()
    kept = [items.get()]
    received.put(os.getpid())
    signal.pause()
    del kept, cuda


def main(tensors: str, count: str) -> None:
    """Send each receiver one, and wait for the end."""
    module = importlib.import_module(tensors)
    context: Any = multiprocessing.get_context("spawn")
    items, received = context.SimpleQueue(), context.SimpleQueue()
    for _ in range(int(count)):
        context.Process(target=receive, args=(tensors, items, received), daemon=True).start()
    kept = [module.tensor(BYTES) for _ in range(int(count))]
    for tensor in kept:
        items.put(tensor)
    print(json.dumps({"producer": os.getpid(), "receivers": [received.get() for _ in kept]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
