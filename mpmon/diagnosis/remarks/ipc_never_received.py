"""CUDA memory was sent, and no process will ever receive it.

What it looks like: memory of the producer that stays allocated, with a count of 1, for minutes, while later items of the same
queue arrive; or items are sent that no process gets.
Why: the message was pickled and thrown away (an exception in get(), a full queue that was closed, a handle that was made by
hand and never rebuilt), or its consumer ended before it arrived.
What to do: receive everything that was sent, also at the end (drain the queue); where handles are made by hand, rebuild each
of them exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, size
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-never-received"

_ADVICE = (
    "Drain the queue before its consumer ends; an exception while unpickling in get() throws the item away: log it there.",
    "The memory is freed only when the producer ends: until then it counts as held.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer."""
    found: dict[int, list[tuple[ExportView, str]]] = {}
    for view, why in job.ipc.never_received:
        found.setdefault(view.producer, []).append((view, why))
    for producer, views in sorted(found.items()):
        yield _remark(job, producer, views)


def _remark(job: JobState, producer: int, found: list[tuple[ExportView, str]]) -> Remark:
    oldest = max(view.age_s or 0.0 for view, _ in found)
    lines = dict.fromkeys(f"{why}{f', sent at {view.site}' if view.site else ''}" for view, why in found)
    count, held = len(found), size(sum(view.size_bytes or 0 for view, _ in found))
    return Remark(
        topic=TOPIC, pids=(producer,), since=job.now - oldest,
        summary=f"{count} transfer{'s' if count > 1 else ''} of CUDA memory ({held}) of {job.ipc.ground.who(producer)} "
        f"{'were' if count > 1 else 'was'} never received, the oldest was sent {age(oldest)} ago",
        evidence=tuple(lines)[:4], advice=_ADVICE,
    )  # fmt: skip
