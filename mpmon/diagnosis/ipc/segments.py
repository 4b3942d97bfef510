"""Expandable segments of torch's caching allocator: memory that is shared in another way than the rest."""

from __future__ import annotations

from mpmon.model import Process

VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def are_expandable(process: Process | None) -> bool:
    """By its environment at its start."""
    settings = (process.environment or {}) if process else {}
    return any("expandable_segments:true" in settings.get(name, "").lower().replace(" ", "") for name in VARIABLES)
