"""Rounds of the probe on a live job, with a clock that goes as fast as the test likes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from mpmon.diagnosis import History
from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc import QueueView
from mpmon.diagnosis.remarks import remarks, shm_orphans
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import QueueState, SharedFile
from mpmon.probes.files import Proc
from mpmon.probes.ipc import IpcProbe
from mpmon.probes.shim import ShimProbe
from mpmon.session.sampler import Sampler

STEP_S = 4.0
"""Between two rounds: longer than any pause of the probe before it looks again."""

TRIES = 600


class Looking:
    """The sampler as `--once` uses it, without stacks."""

    def __init__(self, pid: int, *, eager: bool = True) -> None:
        self._ahead_s = 0.0
        proc = Proc()
        beside = (IpcProbe(proc, eager=eager), ShimProbe(proc))
        self._sampler = Sampler(
            proc, pid, now=self._now, host="host", stacks="never", eager=eager, side_probes=beside
        )  # fmt: skip
        self.history = History()

    def round(self, later_s: float = STEP_S) -> JobState:
        """What is found so many seconds after the round before."""
        self._ahead_s += later_s
        snapshot = self._sampler.round()
        self.history = self.history.add(snapshot)
        return JobState(self.history, snapshot)

    def until(self, fits: Callable[[JobState], object]) -> JobState:
        """The first round of which that is true: what a job has just done may not be seen at once."""
        for _ in range(TRIES):
            job = self.round()
            if fits(job):
                return job
            time.sleep(0.02)
        raise AssertionError([job.snapshot.queues, job.ipc.exports, job.ipc.memory])

    def close(self) -> None:
        self._sampler.close()

    def _now(self) -> float:
        return time.time() + self._ahead_s


@contextlib.contextmanager
def looking_at(pid: int, *, eager: bool = True) -> Iterator[Looking]:
    looking = Looking(pid, eager=eager)
    try:
        yield looking
    finally:
        looking.close()


def state_of(job: JobState, name: str) -> QueueState:
    """The row of a queue by its id."""
    (row,) = [row for row in job.snapshot.queues if row.object == name]
    return row


def view_of(job: JobState, name: str) -> QueueView:
    """The view of a queue by its id."""
    (view,) = [view for view in job.ipc.queues if view.id == name]
    return view


def files_of(job: JobState) -> list[SharedFile]:
    """The files in shared memory that the job made or uses: /dev/shm also shows what the dead of other jobs left."""
    pids = {row.pid for row in job.snapshot.processes} | {row.namespace_pid for row in job.snapshot.processes}
    used = {row.object for row in job.snapshot.shared_uses}
    return [row for row in job.snapshot.shared_files if row.creator in pids or row.id in used]


def remarks_on(job: JobState) -> list[Remark]:
    """The remarks on the job itself: what the dead of other jobs left in /dev/shm is every job's of this machine."""
    return [row for row in remarks(job) if row.topic != shm_orphans.TOPIC]
