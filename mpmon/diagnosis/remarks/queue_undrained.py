"""A process is done but cannot exit: nobody reads the items it has put into a queue.

What it looks like: a worker stays alive after its work; its main thread is in an exit function and joins QueueFeederThread,
which is blocked in write(2).
Why: before it ends, a process waits until its feeder threads have sent everything that was put, and a pipe holds 64 KiB;
nobody calls get() any more.
What to do: get() everything that was put; or cancel_join_thread() in the producer if losing the items is acceptable.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.ipc import QueueView
from mpmon.diagnosis.ipc.names import in_words
from mpmon.diagnosis.ipc.queues import QUEUES_FILE, is_feeder
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.suspects import stands_at

TOPIC = "queue-undrained"

PATIENCE_S = 3.0
"""Seconds for which neither the feeder nor the main thread of a reader has run."""

_JOINS = (Wait.JOIN_PROCESS, Wait.CHILD)


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each process and queue; a process that joins such a process is a hang of its own, `queue-join`."""
    for view in job.ipc.queues if job.blocked else ():
        readers = _readers(job, view)
        if not view.blocked_put or any(_rested_s(job, (pid, pid)) < PATIENCE_S for pid in readers):
            continue
        if any(job.wait_state((pid, pid)).kind in _JOINS for pid in readers):
            continue
        for row in job.ipc.ground.waiting.get(view.id, ()):
            feeder = (row.pid, row.tid)
            for_s = _rested_s(job, feeder)
            if row.writes and for_s >= PATIENCE_S and is_feeder(job.stacks.get(feeder)) and _is_ending(job, row.pid):
                yield _remark(job, view, row.pid, readers, for_s)


def _readers(job: JobState, view: QueueView) -> list[int]:
    """Processes seen to read the queue; if there are none, those that could: they have the reading end, or the queue object."""
    owners = [row.pid for row in job.snapshot.queues if row.object == view.id] if "consumers" in view.reasons else []
    return [
        pid for pid in dict.fromkeys((*view.consumers, *owners)) if pid not in view.blocked_put and job.is_alive(pid)
    ]


def _rested_s(job: JobState, key: tuple[int, int]) -> float:
    past = job.thread_history(key)
    return job.now - past.ran_at if past else 0.0


def _is_ending(job: JobState, pid: int) -> bool:
    stack = job.stacks.get((pid, pid))
    return has(stack, QUEUES_FILE, ("_finalize_join",))


def _remark(job: JobState, view: QueueView, pid: int, readers: list[int], for_s: float) -> Remark:
    ground = job.ipc.ground
    places = ((reader, stands_at(job, (reader, reader))) for reader in readers[:4])
    who = f"{several([ground.who(reader) for reader in readers])} reads nothing from" if readers else "nobody reads"
    return Remark(
        topic=TOPIC, pids=(*readers, pid), since=job.now - for_s,
        summary=f"{ground.who(pid)} cannot exit: its feeder thread has been blocked in write for {age(for_s)}, and {who} "
        f"{in_words(view)}",
        evidence=(
            *((f"{view.bytes_unread} bytes of it are unread",) if view.bytes_unread else ()),
            *(f"{ground.who(reader)} is at {place}" for reader, place in places if place),
        ),
        advice=(
            "Call get() for everything that was put, before the producer ends.",
            "Or queue.cancel_join_thread() in the producer, if losing the items is acceptable.",
        ),
    )  # fmt: skip
