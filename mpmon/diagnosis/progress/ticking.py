"""Threads that only tick: they wake, check something or write a line, and sleep again, with no other visible effect.

A heartbeat, a monitor, a loop that prints how many items are left: such a thread runs forever, whether or not the job
hangs. So that it runs is no progress, and it unblocks nobody. A thread that also changes a variable, reads anything,
starts a process or makes its process grow does more than tick.
"""

from __future__ import annotations

from mpmon.diagnosis.progress.activity import signs_of_life
from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.state_change import moved_nothing
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import ASKS_AGAIN_S, BEAT_SHARE, RETRY_S

_PAUSES = frozenset({Wait.SLEEP, Wait.CONDITION, Wait.PROCESS_EVENT, Wait.POLL, Wait.EVENT_LOOP})
"""Kinds of wait that such a loop renews, each with a time limit."""


def only_ticks(job: JobState, key: ThreadKey) -> bool:
    """The thread polls in a short timed wait, and its process shows no sign of life but writing."""
    if job.wait_state(key).kind not in _PAUSES or not (job.motion(key) is Motion.POLLING or _beats(job, key)):
        return False
    pause = pause_s(job.blocked.get(key))
    return pause is not None and pause <= ASKS_AGAIN_S and signs_of_life(job, key, but_messages=True) is None


def _beats(job: JobState, key: ThreadKey) -> bool:
    """A library's own thread without user code that hardly runs: the change in it is merely that of the time."""
    past = job.thread_history(key)
    serves = key[0] != key[1] and bool(job.shape(key).serves)
    return serves and past is not None and job.motion(key) is Motion.PROGRESSING and share(past.samples) < BEAT_SHARE


def only_beats(job: JobState, key: ThreadKey) -> bool:
    """The thread only ticks while its process writes: it reports that it is alive, or the progress of others."""
    return _may_write(job, key) and only_ticks(job, key)


def but_beating(job: JobState, threads: tuple[ThreadKey, ...]) -> tuple[ThreadKey, ...]:
    """Threads of one process, without those that only beat; the same tuple if there are none."""
    if not threads or not _writes(job, threads[0][0]):
        return threads
    rest = tuple(key for key in threads if not (_may_write(job, key) and only_ticks(job, key)))
    return rest if len(rest) < len(threads) else threads


def _may_write(job: JobState, key: ThreadKey) -> bool:
    """Its process writes, and it is not known that other threads do."""
    past = job.thread_history(key)
    others = past is not None and moved_nothing(past.samples, job.now - 2 * RETRY_S, writes_only=True)
    return not others and _writes(job, key[0])


def _writes(job: JobState, pid: int) -> bool:
    """The process wrote something lately."""
    life = job.history.life(job.processes[pid])
    wrote_at = life.wrote_at if life else None
    return wrote_at is not None and job.now - wrote_at <= 2 * RETRY_S
