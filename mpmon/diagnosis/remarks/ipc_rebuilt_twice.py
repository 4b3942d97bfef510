"""CUDA memory was sent once and rebuilt more than once.

What it looks like: a reference count that is neither 0 nor 1; memory of the producer that is never freed, or tensors of a
consumer whose content changes unexpectedly.
Why: one pickled message was unpickled in two processes, or twice in one (a broadcast of the bytes, a retry, a handle kept in
a dictionary).  Each rebuilt tensor releases one count: at 0 the producer frees memory that the second one still uses, and at
-1 it never frees it.
What to do: send to each receiver separately (one put each), or let one process receive and pass copies on.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.ipc import ExportView
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-rebuilt-twice"

_ADVICE = (
    "Send to each receiver separately: one put each, never the same pickled bytes twice.",
    "Until then the content of such tensors may change under the consumer, or their memory may never be freed.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer."""
    found: dict[int, list[ExportView]] = {}
    for view in job.ipc.exports:
        if view.state == "rebuilt-twice":
            found.setdefault(view.producer, []).append(view)
    for producer, views in sorted(found.items()):
        yield _remark(job, producer, views)


def _remark(job: JobState, producer: int, views: list[ExportView]) -> Remark:
    count = sum(view.exports for view in views)
    values = several(list(dict.fromkeys(str(view.refcount) for view in views if view.refcount is not None)))
    return Remark(
        topic=TOPIC, pids=tuple(dict.fromkeys((producer, *(pid for view in views for pid in view.consumers)))),
        summary=f"{count} transfer{'s' if count > 1 else ''} of CUDA memory of {job.ipc.ground.who(producer)} "
        f"{'were' if count > 1 else 'was'} rebuilt more than once" + (f" (count {values})" if values else ""),
        evidence=tuple(_line(view) for view in views[:4]), advice=_ADVICE,
    )  # fmt: skip


def _line(view: ExportView) -> str:
    slot = "" if view.slot is None else f", slot {view.slot}"
    return f"/dev/shm/{view.file}{slot}" + (f", sent at {view.site}" if view.site else "")
