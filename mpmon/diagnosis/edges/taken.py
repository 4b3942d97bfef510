"""Answers that a process which has ended took from a queue although they were meant for another one.

Several processes put requests into one queue and take the answers out of another. A process's ledger disappears with it, but
what it put and took is what is missing in the sum of all others' (`QueueState.by_ended`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject


def taken_by_ended(job: JobState, key: ThreadKey, objects: Iterable[KernelObject]) -> NoReleaser | None:
    """For a wait in an empty queue of a process that put more than it took: who has ended took more answers than it had put
    requests. All who put into this queue put one item for each they took, and wait for the next.
    """
    names, queues = {item.id for item in objects}, job.snapshot.queues
    queue = next((row for row in queues if row.object in names), None)
    if queue is None or any(row.by_ended is None or row.items != 0 for row in queues):
        return None
    asked = sum(max(row.by_ended or 0, 0) for row in queues)
    took = -(queue.by_ended or 0)
    put: defaultdict[int, int] = defaultdict(int)
    for pid, count in (pair for row in queues for pair in row.ledgers):
        put[pid] += count
    answering = [pid for pid in queue.putters if job.is_alive(pid)]
    wait = all(put[pid] == 0 and job.wait_state((pid, pid)).kind is Wait.QUEUE_GET for pid in answering)
    if not 0 < asked < took or put[key[0]] <= 0 or not answering or not wait:
        return None
    why = f"by the counts of all queues, processes that have ended took {took} items from it and had asked for only {asked}"
    return NoReleaser(why, (key[0],), Absent.ANSWER_TAKEN)
