"""Processes that share memory see different /dev/shm.

What it looks like: memory of the producer is never freed, without any error; or a receiver cannot open what it was sent.
Why: each container has its own /dev/shm.  The reference counts of CUDA memory are in a file there: a consumer that does not
find the file releases nothing, and reports no error.
What to do: one /dev/shm for all of them: --ipc=host, --ipc=container:NAME, or in Kubernetes one pod with a shared emptyDir of
medium Memory at /dev/shm.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "shm-split"


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each producer whose transfers go to processes that do not see its files."""
    systems = job.snapshot.shared_memory
    if len(systems) < 2:
        return
    device = {pid: row.device for row in systems for pid in row.pids}
    apart: dict[int, set[int]] = {}
    for producer, receiver in _transfers(job):
        if producer in device and device.get(receiver, device[producer]) != device[producer]:
            apart.setdefault(producer, set()).add(receiver)
    for producer, receivers in sorted(apart.items()):
        yield _remark(job, producer, sorted(receivers))


def _transfers(job: JobState) -> Iterator[tuple[int, int]]:
    """(sender, receiver) pids of CUDA memory transfers, including items still in a queue."""
    getters = {view.id: view.consumers for view in job.ipc.queues}
    for view in job.ipc.exports:
        receivers = view.consumers or (getters.get(view.queue, ()) if view.queue else ())
        yield from ((view.producer, receiver) for receiver in receivers)


def _remark(job: JobState, producer: int, receivers: list[int]) -> Remark:
    ground = job.ipc.ground
    others = ", ".join(ground.who(pid) for pid in receivers[:4])
    return Remark(
        topic=TOPIC, pids=(producer, *receivers),
        summary=f"{ground.who(producer)} sends CUDA memory to {others}, but they do not see the same /dev/shm: "
        "none of it is ever released",
        evidence=(f"/dev/shm of pid {producer} and of pid {receivers[0]} are different file systems",),
        advice=("Let them share one: --ipc=host or --ipc=container:NAME; in Kubernetes an emptyDir of medium Memory.",),
    )  # fmt: skip
