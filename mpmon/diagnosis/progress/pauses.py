"""Timed waits that a loop keeps renewing: how long each one is."""

from __future__ import annotations

from mpmon.diagnosis.thresholds import PATIENCE_S, RETRY_S
from mpmon.model import Blocked


def pause_s(blocked: Blocked | None) -> float | None:
    """The length of each pause, seconds; `None` without a time limit, or if it is unknown."""
    if blocked is None:
        return None
    if blocked.timeout_s is not None:
        return blocked.timeout_s
    known = blocked.wakes_at is not None and blocked.ran_at is not None
    return blocked.wakes_at - blocked.ran_at if known and blocked.wakes_at and blocked.ran_at else None


def patience_s(blocked: Blocked | None) -> float:
    """Seconds that a wait must last before it is called stuck: longer than it lasts by itself, if its limit is that of a loop."""
    pause = pause_s(blocked) or 0.0
    return max(PATIENCE_S, pause) if pause <= RETRY_S else PATIENCE_S
