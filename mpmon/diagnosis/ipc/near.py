"""When a process is near a limit of the system: the same for descriptors, mappings and addresses."""

from __future__ import annotations

SHARE = 0.9
"""Of what it may have: from here on it is worth a remark, and there is still time."""


def is_near(used: int | None, limit: int | None, share: float = SHARE) -> bool:
    """Whether so much of the limit is used; what is not known is not near."""
    return used is not None and limit is not None and limit > 0 and used >= share * limit
