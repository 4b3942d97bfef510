"""Signs of life: visible effects of a process that seems to loop without progress.

A trainer that polls may be polling for work it caused. It counts as alive if, while mpmon watched, children of it started
or ended, a now idle service process was given work, a process it started made progress, a process it may be waiting for
is at work, or its I/O counters or memory kept growing. Re-reading a file that does not change is polling, not progress;
so is rewriting the same data during interpreter shutdown.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.progress.state_change import moved_nothing, same_answer_since
from mpmon.diagnosis.stacks.waits import Context, Wait, context
from mpmon.diagnosis.state.history import ProcessActivity, ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import (
    BEAT_SHARE,
    BIRTHS_S,
    LEAST_SIGNS,
    PATIENCE_S,
    RECENT_S,
    RUNNING_PATIENCE_S,
    TIMED_SLICES,
)
from mpmon.model import Handle


def signs_of_life(job: JobState, key: ThreadKey, *, but_messages: bool = False) -> str | None:
    """The sign that a thread's process makes progress, in words; `None` if there is none. With `but_messages`, writing does
    not count, because it may only report that the process is alive.
    """
    pid = key[0]
    # Cheap checks on a single row come first.
    life = job.history.life(job.processes[pid])
    only_reads = but_messages or (life is not None and _writes_nothing(job, key, life))
    reads = life is not None and _goes_on(life.read_at if only_reads else life.io_at, job.now)
    if life and reads and not (_only_asks(job, key, life) or _only_repeats(job, key, life)):
        return "it keeps reading or writing"
    if life and _keeps_growing(life, job.now) and not _polls_alone(job, key):
        return "what it has in memory keeps growing"
    if any(parent_of(job, child) == pid for _, child in job.history.births):
        return "it keeps starting processes"
    reaped = life is not None and life.reaped_at is not None and life.reaped_at > job.now - BIRTHS_S
    if reaped or any(row.process.ppid == pid and row.seen_at > job.now - BIRTHS_S for row in job.snapshot.exits):
        return "its children end one after the other"
    if any(was_fed(job, child) for child in job.clients.get(pid, ())):
        return "its workers were given work"
    if any(_gets_on(job, helper) for helper in _helpers(job, pid)):
        return "a process that it has started makes progress"
    polls = key == (pid, pid) and job.motion(key) is Motion.POLLING and context(job.stacks.get(key)) is None
    if polls and job.at_work - {pid}:
        return "another process of the job makes progress"
    others = [other for other in job.threads(pid) if other != key and not job.keeps_books(other)]
    if any(job.motion(other) is Motion.PROGRESSING for other in others):
        return "another of its threads makes progress"
    return None


def _writes_nothing(job: JobState, key: ThreadKey, life: ProcessActivity) -> bool:
    """The process's recent writes came from other threads, such as one that reports every second that all are alive."""
    past = job.thread_history(key)
    return past is not None and moved_nothing(past.samples, min(life.io_at, default=job.now), writes_only=True)


def _keeps_growing(life: ProcessActivity, now: float) -> bool:
    """The process's memory repeatedly reaches new maxima, unlike in a loop without progress."""
    return life.grew_rounds >= LEAST_SIGNS and life.grew_at is not None and now - life.grew_at <= PATIENCE_S


def _only_asks(job: JobState, key: ThreadKey, life: ProcessActivity) -> bool:
    """The thread gets the same answer each time, keeps no file open for reading while it sleeps, and writes only messages; or it
    only polls, and nobody else of its process is at work.
    """
    since = job.asks_since(key)
    if since is None or _polls_alone(job, key):
        return since is not None
    wrote = (life.wrote_at or 0.0) >= since
    return not any(row.reads or wrote for row in _opened(job, key[0]))


def _polls_alone(job: JobState, key: ThreadKey) -> bool:
    """The thread only polls, by its source, and no other thread of its process has run lately."""
    stack = job.stacks.get(key)
    polls = stack is not None and stack.polls_for is not None
    return polls and all(job.motion(other) is Motion.NOT_SCHEDULED for other in job.others_at_work(key))


def _only_repeats(job: JobState, key: ThreadKey, life: ProcessActivity) -> bool:
    """The interpreter shuts down and waits for an executor's task in which nothing changes, which reads nothing and has no
    file open: the task has nothing left to complete.
    """
    past, found = job.thread_history(key), context(job.stacks.get(key))
    at_exit = job.wait_state((key[0], key[0])).kind is Wait.EXIT
    if past is None or not at_exit or found is None or found[0] is not Context.EXECUTOR_THREAD:
        return False
    reads = life.process.read_bytes != life.first.read_bytes
    return not reads and not _opened(job, key[0]) and same_answer_since(past.samples) is not None


def _opened(job: JobState, pid: int) -> list[Handle]:
    """The files a process has open, except its standard streams."""
    rows = (row for row in job.snapshot.handles if row.pid == pid and row.object.startswith("file:"))
    return [row for row in rows if row.fd not in STANDARD_STREAMS]


STANDARD_STREAMS = range(3)
"""Descriptors that messages go to."""


def _helpers(job: JobState, pid: int) -> Iterator[int]:
    """The process's `helpmates`, recursively, without recursion: a job may be a chain of a thousand processes."""
    seen, found = {pid}, [pid]
    for each in found:
        new = [helper for helper in job.helpmates(each) if helper not in seen]
        yield from new
        seen.update(new)
        found += new


def _gets_on(job: JobState, pid: int) -> bool:
    """The process makes progress or, if its frames cannot be read, keeps using a CPU or doing I/O; what a server reads and writes
    are the requests of others, and its answers.
    """
    key, life = (pid, pid), job.history.life(job.processes[pid])
    if job.motion(key) in (Motion.PROGRESSING, Motion.BUSY_LOOP) and not job.wait_state(key).idle:
        return True
    if key in job.stacks or life is None:
        return False
    serves = job.wait_state(key).kind is Wait.POLL and any(item.listens for item in job.waits_on(key))
    return _goes_on(life.busy_at, job.now) or (_goes_on(life.io_at, job.now) and not serves)


def _goes_on(moments: tuple[float, ...], now: float) -> bool:
    return len(moments) == LEAST_SIGNS and moments[0] > now - RECENT_S


def parent_of(job: JobState, pid: int) -> int | None:
    """The kernel's parent of a process of this snapshot."""
    process = job.processes.get(pid)
    return process.ppid if process else None


def was_fed(job: JobState, pid: int) -> bool:
    """An idle service process was given work: it ran more often than the renewals of its timed wait explain, or, where a timer of
    its event loop has it run, for longer than a beat takes.
    """
    key = (pid, pid)
    past, blocked = job.thread_history(key), job.blocked.get(key)
    if past is None or blocked is None:
        return False
    if any(name.startswith("timerfd:") for name in blocked.waits_on) and share(past.samples) < BEAT_SHARE:
        return False
    since, slices = past.first_at, past.first.slices
    if lately := [sample for sample in past.samples if sample.at > job.now - RECENT_S]:
        since, slices = max((since, slices), (lately[0].at, lately[0].slices))
    ran, limit = past.thread.slices - slices, blocked.timeout_s
    explained = 1 if limit is None else TIMED_SLICES * ((job.now - since) / max(limit, 0.1) + 1)
    return past.ran_at > job.now - RECENT_S and ran > explained and job.wait_state(key).idle


def reads_for_ever(job: JobState, pid: int) -> bool:
    """The process reads again and again without getting anything, and each pipe that it can read is at its end: nobody can
    write into it any more. One that somebody can write into may be looked into without waiting.
    """
    life = job.history.life(job.processes[pid])
    if life is None or life.empty_since is None or job.now - life.empty_since < RUNNING_PATIENCE_S:
        return False
    pipes = [name for name in job.held_by.get(pid, ()) if name.startswith("pipe:") and _reads(job, pid, name)]
    return bool(pipes) and not job.without_handles and not any(_is_open_for_writing(job, name) for name in pipes)


def _reads(job: JobState, pid: int, name: str) -> bool:
    return any(row.pid == pid and row.reads for row in job.holders[name])


def _is_open_for_writing(job: JobState, name: str) -> bool:
    """Somebody of the job can write into the pipe, or it is the job's standard input, into which anybody may write: who has it
    outside is looked up only for what a thread is blocked in.
    """
    rows, root = job.holders[name], job.snapshot.root_pid
    return any(row.writes or (row.pid == root and row.fd == 0) for row in rows) or bool(job.outsiders.get(name))
