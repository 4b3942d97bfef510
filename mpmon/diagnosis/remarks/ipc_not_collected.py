"""CUDA memory that all consumers have released is still allocated in the producer.

What it looks like: the consumer has dropped everything, and the producer's memory does not fall; after each transfer of
weights some gigabytes more are gone.
Why: torch keeps memory that the producer drops while a consumer holds it, and checks it again only when the next shared block
is freed, when torch.cuda.ipc_collect() is called, or when an allocation fails; empty_cache() does not.
What to do: call torch.cuda.ipc_collect() in the producer after the consumers have released it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, between, size
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-not-collected"

PATIENCE_S = 30.0
"""Seconds to wait, because the next free may collect the memory soon."""

LEAST_BYTES = 16 << 20

PAUSE_S = 1.0
"""Minimum pause, seconds, between transfers of different rounds, such as rounds of sending weights."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer."""
    left: dict[int, list[ExportView]] = {}
    for view in job.ipc.exports:
        late = view.state == "released-not-collected" and _released_s(job, view) >= PATIENCE_S
        if late and not _is_collected(job, view):
            left.setdefault(view.producer, []).append(view)
    for producer, views in sorted(left.items()):
        if sum(view.size_bytes or 0 for view in views) >= LEAST_BYTES:
            yield _remark(job, producer, views)


def _released_s(job: JobState, view: ExportView) -> float:
    """Seconds since the release, a lower bound: a release before mpmon attached counts from the start of observation."""
    return job.history.watched_s if view.released_s is None else view.released_s


def _is_collected(job: JobState, view: ExportView) -> bool:
    shim = job.ipc.ground.shims.get(view.producer)
    released_at = job.now - _released_s(job, view)
    return shim is not None and shim.collected_at is not None and shim.collected_at >= released_at


def _remark(job: JobState, producer: int, views: list[ExportView]) -> Remark:
    longest = max(_released_s(job, view) for view in views)
    rounds = _rounds(views)
    blocks = f"{len(views)} block{'s' if len(views) > 1 else ''} {size(sum(view.size_bytes or 0 for view in views))}"
    sites = dict.fromkeys(f"sent at {view.site}" for view in views if view.site)
    return Remark(
        topic=TOPIC, pids=(producer,), since=job.now - longest,
        summary=f"{blocks} of CUDA memory released, not collected: torch.cuda.ipc_collect() in {job.ipc.ground.who(producer)}",
        evidence=(f"their counts have been 0 for {age(longest)}, and the shim has seen no collection since",
                  *((f"{between(size(min(rounds)), size(max(rounds)))} more with each of {len(rounds)} rounds of transfers",)
                    if len(rounds) > 1 else ()),
                  *list(sites)[:4]),
        advice=("Call torch.cuda.ipc_collect() in the producer once its consumers have released it; empty_cache() does not.",),
    )  # fmt: skip


def _rounds(views: list[ExportView]) -> list[int]:
    """Bytes per round of transfers sent shortly after one another, the earliest round first."""
    rounds: list[int] = []
    last = float("-inf")
    for at, held in sorted((view.sent_at or 0.0, view.size_bytes or 0) for view in views):
        if at - last >= PAUSE_S:
            rounds.append(0)
        rounds[-1] += held
        last = at
    return rounds
