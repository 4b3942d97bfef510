"""Tensors on the GPU, as `shares` makes them; a stand-in has the same names."""

from __future__ import annotations

import torch


def version() -> str | None:
    """Of torch; `None` where it has no CUDA here."""
    return torch.__version__ if torch.cuda.is_available() else None


def tensor(size: int) -> object:
    """One of so many bytes, written to."""
    return torch.ones(size, dtype=torch.uint8, device="cuda")


def allocated() -> int:
    """Bytes that torch has not given back to its own cache."""
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def collect() -> None:
    """Let go of what consumers have given back."""
    torch.cuda.ipc_collect()
