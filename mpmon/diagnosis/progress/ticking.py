"""Threads that only tick: they wake, look in or write a line, and sleep again, and nothing else of it can be seen.

A heartbeat, a monitor, a loop that prints how many are left: it runs for ever, in a job that hangs as in one that does not.
So that it runs shows nothing, and it helps nobody who stands still.  Who changes a variable while it ticks, reads anything,
starts somebody or makes its process grow does more than that.
"""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.progress.activity import signs_of_life
from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.thresholds import BEAT_SHARE, RETRY_S
from mpmon.diagnosis.waits import Wait

_PAUSES = frozenset({Wait.SLEEP, Wait.CONDITION, Wait.PROCESS_EVENT, Wait.POLL, Wait.EVENT_LOOP})
"""Waits with a time limit that a loop takes up again and again."""


def only_ticks(case: Case, key: ThreadKey) -> bool:
    """Each look finds it in the same short pause, and nothing that its process does meanwhile but to write."""
    if case.standing(key).kind not in _PAUSES or not (case.motion(key) is Motion.POLLING or _beats(case, key)):
        return False
    pause = pause_s(case.blocked.get(key))
    return pause is not None and pause <= RETRY_S and signs_of_life(case, key, but_messages=True) is None


def _beats(case: Case, key: ThreadKey) -> bool:
    """A thread of a library's own, in which none of the user's code runs, that hardly runs: what changes in it is the time."""
    past = case.past(key)
    serves = key[0] != key[1] and bool(case.shape(key).serves)
    return serves and past is not None and case.motion(key) is Motion.PROGRESSING and share(past.looks) < BEAT_SHARE


def only_beats(case: Case, key: ThreadKey) -> bool:
    """It only ticks, and its process writes meanwhile: it says that it lives, or how far others are."""
    life = case.history.life(case.processes[key[0]])
    wrote_at = life.wrote_at if life else None
    return wrote_at is not None and case.now - wrote_at <= 2 * RETRY_S and only_ticks(case, key)
