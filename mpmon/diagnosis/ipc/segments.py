"""Expandable segments of torch's caching allocator: memory that is shared differently from other memory."""

from __future__ import annotations

from mpmon.model import Process

VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def are_expandable(process: Process | None) -> bool:
    """By its initial environment."""
    settings = (process.environment or {}) if process else {}
    return any("expandable_segments:true" in settings.get(name, "").lower().replace(" ", "") for name in VARIABLES)
