"""CUDA memory stays allocated because the process that received it died.

What it looks like: memory of the producer that neither del nor torch.cuda.ipc_collect() frees.
Why: a consumer releases its count when its tensor is freed; one that was killed never does (torch's notes on
multiprocessing).
What to do: let consumers end by themselves (a sentinel, then join), and delete their tensors first; memory lost this way is
freed when the producer ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import size
from mpmon.diagnosis.ipc import PairView
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-leak-by-death"

_ADVICE = (
    "It is freed only when the producer ends: restart it, or keep such blocks in a pool that outlives its consumers.",
    "Let consumers end by themselves (a sentinel, then join) and del their tensors first; kill() leaks the memory.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer and dead consumer."""
    for pair in job.ipc.pairs:
        if not _lives(job, pair.consumer) and job.ipc.ground.is_alive(pair.producer):
            yield _remark(job, pair)


def _lives(job: JobState, pid: int) -> bool:
    shim = job.ipc.ground.shims.get(pid)
    return job.ipc.ground.is_alive(pid) and (shim is None or shim.alive)


def _remark(job: JobState, pair: PairView) -> Remark:
    blocks = f"{pair.blocks} block{'s' if pair.blocks > 1 else ''} {size(pair.bytes)}"
    sites = (f"sent at {pair.site}",) if pair.site else ()
    return Remark(
        topic=TOPIC, pids=(pair.producer, pair.consumer),
        summary=f"{blocks} of CUDA memory of {job.ipc.ground.who(pair.producer)} stay allocated forever: "
        f"pid {pair.consumer} had received them and died",
        since=None if pair.oldest_age_s is None else job.now - pair.oldest_age_s,
        evidence=(*sites, f"their counts are still 1, and pid {pair.consumer} has ended"), advice=_ADVICE,
    )  # fmt: skip
