"""What `mpmon.doctor.gpu.programs.cuda` is on a GPU, with the stand-in of `tests.ipc.standin`.

With STANDIN_EVENT_BYTES in the environment a receiver keeps so much of each sending (`standin.EVENT`).
"""

from __future__ import annotations

import os
import weakref

import torch

from tests.ipc import standin

standin.install()
standin.EVENT = bytearray(int(os.environ.get("STANDIN_EVENT_BYTES", len(standin.EVENT))))

_alive: weakref.WeakSet[standin.Tensor] = weakref.WeakSet()


def version() -> str:
    return torch.__version__


def tensor(size: int) -> standin.Tensor:
    made = standin.Tensor(size, dtype=torch.uint8)
    _alive.add(made)
    return made


def allocated() -> int:
    """What is alive, and what the limbo keeps."""
    kept = {id(sending.memory): sending.memory.nbytes() for sending in standin.PRODUCER.limbo}
    return sum(made._typed_storage().nbytes() for made in _alive) + sum(kept.values())


def collect() -> None:
    torch.cuda.ipc_collect()
