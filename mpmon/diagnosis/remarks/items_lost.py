"""Items were put into a queue and could not be sent.

What it looks like: put() returned, but no process ever gets the item; the log has a traceback of QueueFeederThread.
Why: the feeder thread pickles after put() has returned. Items that cannot be pickled, or for which no descriptor is left, are
dropped with only a traceback on standard error; so is CUDA memory that came from another process, which torch does not pass
on, and all CUDA memory where PYTORCH_NO_CUDA_MEMORY_CACHING is set: without its caching allocator torch shares none.
What to do: search standard error for QueueFeederThread; make the item picklable; raise the limit of open files.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc import QueueView
from mpmon.diagnosis.ipc.names import in_words
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "items-lost"

NO_CACHING = "PYTORCH_NO_CUDA_MEMORY_CACHING"


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each queue."""
    if not any(row.lost for row in job.snapshot.queue_records):
        return
    for view in job.ipc.queues:
        if view.lost:
            yield _remark(job, view)


def _remark(job: JobState, view: QueueView) -> Remark:
    losers = [row for row in job.ipc.ground.records[view.id] if row.lost]
    count, them = ("1 item was", "it") if view.lost == 1 else (f"{view.lost} items were", "them")
    return Remark(
        topic=TOPIC, pids=tuple(row.pid for row in losers),
        summary=f"{count} put into {in_words(view)} but could not be sent: no process will ever get {them}",
        evidence=tuple(_line(job, row.pid, row.lost, row.lost_site) for row in losers[:4]),
        advice=(
            "Search the job's standard error for QueueFeederThread: the traceback names what could not be pickled or sent.",
            "If it says 'Too many open files': raise ulimit -n, or set_sharing_strategy('file_system').",
            "If it says 'Attempted to send CUDA tensor received from another process': send a copy of it (.clone()).",
            *_without_cache(job, [row.pid for row in losers]),
        ),
    )  # fmt: skip


def _without_cache(job: JobState, pids: list[int]) -> Iterator[str]:
    """Where one of these has no caching allocator."""
    processes = (job.processes.get(pid) for pid in pids)
    if any(process and NO_CACHING in (process.environment or {}) for process in processes):
        yield f"If it says 'invalid device pointer': unset {NO_CACHING}, which is for debugging."


def _line(job: JobState, pid: int, lost: int, site: str | None) -> str:
    return f"{job.ipc.ground.who(pid)} lost {lost}" + (f"; the last one was put at {site}" if site else "")
