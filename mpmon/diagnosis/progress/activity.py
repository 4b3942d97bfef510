"""Signs of life: what a process that seems to loop without progress did for others meanwhile.

A trainer that polls may be waiting for its own progress. It is alive if, while mpmon watched, its children came or
went, a now idle service process was given work, a process it started made progress, another process works that it may
wait for, or its I/O counters or memory kept growing. Re-reading a file that does not change is polling, not progress;
so is rewriting the same data during interpreter shutdown.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.history import ProcessActivity, ThreadKey
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.state_change import same_answer_since
from mpmon.diagnosis.thresholds import BIRTHS_S, LEAST_SIGNS, PATIENCE_S, RECENT_S, TIMED_SLICES
from mpmon.diagnosis.waits import Context, Wait, context
from mpmon.model import Handle


def signs_of_life(case: Case, key: ThreadKey, *, but_messages: bool = False) -> str | None:
    """What shows that a thread's process makes progress, in words; `None` if nothing does. With `but_messages`, writing
    shows nothing, for it may only report that it is alive.
    """
    pid = key[0]
    # What a single row tells is checked first.
    life = case.history.life(case.processes[pid])
    only_reads = but_messages or (life is not None and _writes_nothing(case, key, life))
    reads = life is not None and _goes_on(life.read_at if only_reads else life.io_at, case.now)
    if life and reads and not (_only_asks(case, key, life) or _only_repeats(case, key, life)):
        return "it keeps reading or writing"
    if life and _keeps_growing(life, case.now):
        return "what it has in memory keeps growing"
    if any(parent_of(case, child) == pid for _, child in case.history.births):
        return "it keeps starting processes"
    reaped = life is not None and life.reaped_at is not None and life.reaped_at > case.now - BIRTHS_S
    if reaped or any(row.process.ppid == pid and row.seen_at > case.now - BIRTHS_S for row in case.snapshot.exits):
        return "its children end one after the other"
    if any(was_fed(case, child) for child in case.clients.get(pid, ())):
        return "its workers were given work"
    if any(_gets_on(case, helper) for helper in _helpers(case, pid)):
        return "a process that it has started makes progress"
    polls = key == (pid, pid) and case.motion(key) is Motion.POLLING and context(case.stacks.get(key)) is None
    if polls and case.at_work - {pid}:
        return "another process of the job makes progress"
    others = [other for other in case.threads(pid) if other != key]
    if any(case.motion(other) is Motion.PROGRESSING for other in others):
        return "another of its threads makes progress"
    return None


def _writes_nothing(case: Case, key: ThreadKey, life: ProcessActivity) -> bool:
    """What its process wrote lately came from other threads, such as one that reports every second that all are alive."""
    past = case.past(key)
    looks = [look for look in (past.looks if past else ()) if look.stack and look.stack.wrote is not None]
    since = looks[0].at if looks else case.now
    return since <= min(life.io_at, default=case.now) and len({look.stack.wrote for look in looks if look.stack}) == 1


def _keeps_growing(life: ProcessActivity, now: float) -> bool:
    """Its memory reaches new highs again and again: it makes something, unlike a loop without progress."""
    return life.grew_rounds >= LEAST_SIGNS and life.grew_at is not None and now - life.grew_at <= PATIENCE_S


def _only_asks(case: Case, key: ThreadKey, life: ProcessActivity) -> bool:
    """It gets the same answer each time, closes what it reads before it sleeps, and writes no more than messages."""
    since = case.asks_since(key)
    if since is None:
        return False
    wrote = (life.wrote_at or 0.0) >= since
    return not any(row.reads or wrote for row in _opened(case, key[0]))


def _only_repeats(case: Case, key: ThreadKey, life: ProcessActivity) -> bool:
    """The interpreter shuts down and waits for an executor's task that reads nothing, keeps nothing open, and in which
    nothing changes: it has nothing left to complete.
    """
    past, found = case.past(key), context(case.stacks.get(key))
    at_exit = case.standing((key[0], key[0])).kind is Wait.EXIT
    if past is None or not at_exit or found is None or found[0] is not Context.EXECUTOR_THREAD:
        return False
    reads = life.process.read_bytes != life.first.read_bytes
    return not reads and not _opened(case, key[0]) and same_answer_since(past.looks) is not None


def _opened(case: Case, pid: int) -> list[Handle]:
    """The files a process has open, except those that messages go to."""
    rows = (row for row in case.snapshot.handles if row.pid == pid and row.object.startswith("file:"))
    return [row for row in rows if row.fd not in STANDARD_STREAMS]


STANDARD_STREAMS = range(3)
"""Destinations of messages."""


def _helpers(case: Case, pid: int) -> Iterator[int]:
    """The processes it started that work by themselves, and theirs; a job may be a chain of a thousand."""
    seen, found = {pid}, [pid]
    for each in found:
        new = [helper for helper in case.helpmates(each) if helper not in seen]
        yield from new
        seen.update(new)
        found += new


def _gets_on(case: Case, pid: int) -> bool:
    """It makes progress, or uses a CPU while its frames cannot be compared."""
    key, life = (pid, pid), case.history.life(case.processes[pid])
    if case.motion(key) in (Motion.PROGRESSING, Motion.BUSY_LOOP) and not case.standing(key).idle:
        return True
    return key not in case.stacks and life is not None and _works(life, case.now)


def _works(life: ProcessActivity, now: float) -> bool:
    """It keeps reading or writing, or computing."""
    return _goes_on(life.io_at, now) or _goes_on(life.busy_at, now)


def _goes_on(moments: tuple[float, ...], now: float) -> bool:
    return len(moments) == LEAST_SIGNS and moments[0] > now - RECENT_S


def parent_of(case: Case, pid: int) -> int | None:
    """The kernel's parent of a process of this snapshot."""
    process = case.processes.get(pid)
    return process.ppid if process else None


def was_fed(case: Case, pid: int) -> bool:
    """An idle service process that ran more often than its wait's time limit explains."""
    key = (pid, pid)
    past, blocked = case.past(key), case.blocked.get(key)
    if past is None or blocked is None:
        return False
    since, slices = past.first_at, past.first.slices
    if lately := [look for look in past.looks if look.at > case.now - RECENT_S]:
        since, slices = max((since, slices), (lately[0].at, lately[0].slices))
    ran, limit = past.thread.slices - slices, blocked.timeout_s
    explained = 1 if limit is None else TIMED_SLICES * ((case.now - since) / max(limit, 0.1) + 1)
    return past.ran_at > case.now - RECENT_S and ran > explained and case.standing(key).idle
