"""Signs of life: what a process that seems to go round in circles did for others meanwhile.

A trainer that naps in a polling loop may be waiting for its own progress.  It is alive when, while mpmon watched, its
children came or went, a servant that is idle now had been given work, or its I/O counters kept growing.
"""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.history import WINDOW_S, ThreadKey
from mpmon.diagnosis.motion import TIMED_SLICES, Motion

IO_ROUNDS = 3
"""Rounds with growing I/O that count as work; once or twice is a log line."""


def signs_of_life(case: Case, key: ThreadKey) -> str | None:
    """What shows that the process of a thread gets somewhere, in words; `None` when nothing does."""
    pid = key[0]
    if any(parent_of(case, child) == pid for _, child in case.history.births):
        return "it keeps starting processes"
    if any(row.process.ppid == pid and row.seen_at > case.now - WINDOW_S for row in case.snapshot.exits):
        return "its children end one after the other"
    if any(was_fed(case, child) for child in case.clients.get(pid, ())):
        return "its workers were given work"
    life = case.history.life(case.processes[pid])
    if life and life.io_rounds >= IO_ROUNDS:
        return "it keeps reading or writing"
    others = [other for other in case.threads(pid) if other != key]
    if any(case.motion(other) is Motion.MOVING for other in others):
        return "another of its threads gets on"
    return None


def parent_of(case: Case, pid: int) -> int | None:
    """The kernel's parent of a process of this snapshot."""
    process = case.processes.get(pid)
    return process.ppid if process else None


def was_fed(case: Case, pid: int) -> bool:
    """An idle servant that ran more often than its wait's time limit explains."""
    key = (pid, pid)
    past, blocked = case.past(key), case.blocked.get(key)
    if past is None or blocked is None or not case.standing(key).idle:
        return False
    limit = blocked.timeout_s
    ran = past.thread.slices - past.first.slices
    if limit is None:
        return ran > 1
    return ran > TIMED_SLICES * ((case.now - past.first_at) / max(limit, 0.1) + 1)
