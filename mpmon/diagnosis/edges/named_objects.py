"""System V semaphores and message queues, and POSIX message queues: the kernel does not tell who uses them."""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import lost_relatives
from mpmon.diagnosis.graph import External, WaitEdge
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def named_object(job: JobState, key: ThreadKey) -> WaitEdge:
    """Anybody may post or send who knows its number or name: everybody at work in the job on the same machine, and others.
    Without one of the job at work, those that crashed would have.
    """
    others = (other for pid in job.programs_beside(key[0]) for other in job.working_threads(pid))
    at_work = [*job.others_at_work(key), *others]
    gone = [row for row in lost_relatives(job, key[0], certain=False) if row.status]
    words = job.wait_state(key).words
    return WaitEdge((*gone, *at_work, External(f"whoever else uses {words}")), guessed=True, words=words)
