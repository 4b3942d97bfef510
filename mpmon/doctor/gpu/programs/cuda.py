"""GPU tensors for `shares`; a stand-in provides the same functions."""

from __future__ import annotations

import torch


def version() -> str | None:
    """Version of torch; `None` where it has no CUDA."""
    return torch.__version__ if torch.cuda.is_available() else None


def tensor(size: int) -> object:
    """A tensor of `size` bytes, written to."""
    return torch.ones(size, dtype=torch.uint8, device="cuda")


def allocated() -> int:
    """Bytes in use, not counting torch's cache."""
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def collect() -> None:
    """Free memory that consumers have released."""
    torch.cuda.ipc_collect()
