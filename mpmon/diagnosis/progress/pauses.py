"""Timed waits that a loop keeps renewing: how long each one is."""

from __future__ import annotations

from mpmon.model import Blocked


def pause_s(blocked: Blocked | None) -> float | None:
    """The length of each pause, seconds; `None` without a time limit, or if it is unknown."""
    if blocked is None:
        return None
    if blocked.timeout_s is not None:
        return blocked.timeout_s
    known = blocked.wakes_at is not None and blocked.ran_at is not None
    return blocked.wakes_at - blocked.ran_at if known and blocked.wakes_at and blocked.ran_at else None
