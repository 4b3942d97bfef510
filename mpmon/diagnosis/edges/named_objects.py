"""System V semaphores and message queues, and POSIX message queues: the kernel does not tell who uses them."""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import crashed
from mpmon.diagnosis.graph import External, WaitEdge
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def named_object(job: JobState, key: ThreadKey) -> WaitEdge:
    """Anybody may post or send who knows its number or name: whoever is at work in the job on the same machine, and others;
    if nobody is, those that crashed would have.
    """
    words = job.wait_state(key).words
    if at_work := job.of(_AtWork).on(job.processes[key[0]].host):
        return WaitEdge(at_work, guessed=True, words=words)
    gone = crashed(job, key[0])
    return WaitEdge((*gone, External(f"whoever else uses {words}")), guessed=True, words=words)


class _AtWork:
    """The threads of a job that do not wait for such an object themselves: the same tuple for all that do."""

    def __init__(self, job: JobState) -> None:
        self._job = job
        self._on: dict[str, tuple[ThreadKey, ...]] = {}

    def on(self, host: str) -> tuple[ThreadKey, ...]:
        """Those on this machine."""
        if host not in self._on:
            pids = [pid for pid in self._job.doers if self._job.processes[pid].host == host]
            threads = (key for pid in pids for key in self._job.working_threads(pid))
            self._on[host] = tuple(key for key in threads if self._job.wait_state(key).kind is not Wait.NAMED_OBJECT)
        return self._on[host]
