"""A consumer keeps more and more of the CUDA memory it receives.

What it looks like: the memory of the producer grows with every batch, although it keeps nothing itself.
Why: a process that receives CUDA memory holds the producer's memory until its last tensor of it is freed: a list of batches,
a loss with its graph, a variable left over from a loop.  A tensor of 4 KiB keeps the whole block.
What to do: copy what you keep (.clone()), and del the received tensor before taking the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, size
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.ipc.exports import most_common
from mpmon.diagnosis.ipc.names import in_words
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-leak-by-consumer"

SPAN_S = 60.0
"""Blocks kept for a shorter time may be a window of batches."""

FEWEST = 16
"""Minimum number of blocks. Weights that are sent once are as many, but are all sent at one time."""

QUARTERS = 4
"""Number of parts of the time since the oldest kept block; blocks were kept in each part, so the leak is ongoing."""

_ADVICE = (
    "Copy what you keep (.clone() or .cpu()), and del the received tensor before the next get().",
    "Look for lists of batches or losses in the consumer, and for received tensors in closures and caches.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each combination of producer, consumer and sending line."""
    kept: dict[tuple[int, int, str | None], list[ExportView]] = {}
    for view in job.ipc.exports:
        for consumer in view.consumers if view.state == "held" else ():
            kept.setdefault((view.producer, consumer, view.site), []).append(view)
    for (producer, consumer, _), views in sorted(kept.items(), key=lambda item: -len(item[1])):
        if _grows([view.age_s for view in views if view.age_s is not None]):
            yield _remark(job, producer, consumer, views)


def _grows(ages: list[float]) -> bool:
    oldest = max(ages, default=0.0)
    if len(ages) < FEWEST or oldest < SPAN_S:
        return False
    parts = [min(QUARTERS - 1, int(QUARTERS * age_s / oldest)) for age_s in ages]
    return min(parts.count(part) for part in range(QUARTERS)) >= FEWEST // QUARTERS // 2


def _remark(job: JobState, producer: int, consumer: int, views: list[ExportView]) -> Remark:
    ground = job.ipc.ground
    oldest = max(view.age_s or 0.0 for view in views)
    queue = most_common(view.queue for view in views)
    site = f", sent at {views[0].site}" if views[0].site else ""
    return Remark(
        topic=TOPIC, pids=(consumer, producer), since=job.now - oldest,
        summary=f"{ground.who(consumer)} holds {len(views)} blocks {size(sum(view.size_bytes or 0 for view in views))} of CUDA "
        f"memory of {ground.who(producer)}, a number that has grown for {age(oldest)}",
        evidence=(f"through {_name(job, queue)}{site}" if queue else f"each block{site} still has count 1",),
        advice=_ADVICE,
    )  # fmt: skip


def _name(job: JobState, queue: str) -> str:
    return next((in_words(view) for view in job.ipc.queues if view.id == queue), f"queue {queue}")
