"""When a process is near a limit of the system: the same for descriptors, mappings and addresses."""

from __future__ import annotations

from mpmon.diagnosis.thresholds import NEAR_LIMIT_SHARE


def is_near(used: int | None, limit: int | None, share: float = NEAR_LIMIT_SHARE) -> bool:
    """Whether so much of the limit is used; what is not known is not near."""
    return used is not None and limit is not None and limit > 0 and used >= share * limit
