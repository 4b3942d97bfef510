"""Every transfer of CUDA memory waits for the whole stream.

What it looks like: put() of a CUDA tensor takes as long as all the work before it, without any warning.
Why: torch uses at most 1000 events for memory that was sent and not released (CUDA_IPC_MAXIMUM_EVENTS_TO_USE); beyond that it
synchronizes the stream at each transfer.
What to do: release received tensors (del in the consumer), or send fewer and larger tensors.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.ipc.exports import most_common
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-sync-mode"

FEWEST = 10
"""Minimum number of transfers that waited; a few may be the end of a burst."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer."""
    sent: dict[int, list[ExportView]] = {}
    for view in job.ipc.exports:
        sent.setdefault(view.producer, []).append(view)
    for producer, views in sorted(sent.items()):
        synced = [view for view in views if view.synced]
        if len(synced) >= FEWEST:
            yield _remark(job, producer, synced, len(views))


def _remark(job: JobState, producer: int, synced: list[ExportView], out: int) -> Remark:
    site = most_common(view.site for view in synced)
    return Remark(
        topic=TOPIC, pids=(producer,),
        summary=f"{job.ipc.ground.who(producer)} has {out} transfers of CUDA memory outstanding, and no event left: "
        "each further one waits for the whole stream",
        evidence=(f"{len(synced)} of them were sent with a full synchronization" + (f", most at {site}" if site else ""),),
        advice=("Let consumers del what they received, or send fewer, larger tensors: torch has 1000 events for this.",),
    )  # fmt: skip
