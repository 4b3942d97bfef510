"""Threads that only tick: they wake, look in or write a line, and sleep again, and nothing else of it can be seen.

A heartbeat, a monitor, a loop that prints how many are left: it runs for ever, in a job that hangs as in one that does not.
So that it runs shows nothing, and it helps nobody who stands still.  Who changes a variable while it ticks, reads anything,
starts somebody or makes its process grow does more than that.
"""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.progress.life import signs_of_life
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.waits import Wait
from mpmon.model import Blocked

RETRY_S = 6.0
"""Whoever waits for no longer than this only looks in from time to time; who waits for longer has something to do then."""

_PAUSES = frozenset({Wait.SLEEP, Wait.CONDITION, Wait.POLL, Wait.EVENT_LOOP})
"""Waits with a time limit that a loop takes up again and again."""


def only_ticks(case: Case, key: ThreadKey) -> bool:
    """Each look finds it in the same short pause, and nothing that its process does meanwhile but to write."""
    if case.motion(key) is not Motion.NAPPING or case.standing(key).kind not in _PAUSES:
        return False
    pause = pause_s(case.blocked.get(key))
    return pause is not None and pause <= RETRY_S and signs_of_life(case, key, but_messages=True) is None


def only_beats(case: Case, key: ThreadKey) -> bool:
    """It only ticks, and its process writes meanwhile: it says that it lives, or how far others are."""
    life = case.history.life(case.processes[key[0]])
    wrote_at = life.wrote_at if life else None
    return wrote_at is not None and case.now - wrote_at <= 2 * RETRY_S and only_ticks(case, key)


def pause_s(blocked: Blocked | None) -> float | None:
    """How long it pauses each time, seconds; `None` without a time limit, or where it is not known."""
    if blocked is None:
        return None
    if blocked.timeout_s is not None:
        return blocked.timeout_s
    known = blocked.wakes_at is not None and blocked.ran_at is not None
    return blocked.wakes_at - blocked.ran_at if known and blocked.wakes_at and blocked.ran_at else None
