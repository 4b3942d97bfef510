"""The next batch of a DataLoader."""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import gone_children
from mpmon.diagnosis.edges.messages import has_mail
from mpmon.diagnosis.edges.servants import busy_threads, idle_words
from mpmon.diagnosis.graph import Absent, Basis, NoReleaser, WaitEdge
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import bare, has
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def loader_batch(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The worker with the next batch in order; else all workers that have work, since the others are legitimately idle."""
    if has_mail(job, key):
        return None
    if pinning := _pinning(job, key):
        return WaitEdge(pinning, basis=Basis.FRAMES, words=f"its batch, which {job.thread_words(pinning[0])} pins")
    workers = _loader_workers(job, key)
    awaited = _awaited_worker(job, key, workers)
    busy = list(busy_threads(job, workers))
    next_busy = [other for other in busy if other[0] == awaited]
    if next_busy:
        words = f"the next batch from {job.name(next_busy[0][0])}"
        return WaitEdge(tuple(next_busy), basis=Basis.MEMORY, words=words, evidence=idle_words(job, workers))
    if busy:
        names = job.names(dict.fromkeys(pid for pid, _ in busy))
        return WaitEdge(tuple(busy), words=f"the next batch from {names}", evidence=idle_words(job, workers))
    gone = gone_children(job, key[0], {LOADER_WORKER})
    if gone:
        return WaitEdge(tuple(gone), words="the next batch from a DataLoader worker that ended")
    if not workers and (started := [(pid, pid) for pid in job.helpmates(key[0])]):
        # A process that is still importing is not recognised as a worker yet.
        return WaitEdge(tuple(started), words="the next batch")
    if not workers:
        return WaitEdge((NoReleaser("it has no DataLoader workers", reason=Absent.NO_WORKERS),), words="the next batch")
    return _lost_batch(job, workers, awaited)


def _pinning(job: JobState, key: ThreadKey) -> tuple[ThreadKey, ...]:
    """The loader's thread that copies batches to pinned memory, blocked in that, or in the batch's own `pin_memory()`, rather
    than waiting for the next batch of the workers (torch/utils/data/_utils/pin_memory.py).
    """
    others = (other for other in job.threads(key[0]) if other != key)
    stacks = ((other, stack) for other in others if (stack := job.stacks.get(other)))
    return tuple(
        other
        for other, stack in stacks
        if has(stack, *_PINS) and has(stack, _PINS[0], ("pin_memory",)) and job.motion(other) is not Motion.PROGRESSING
    )


_PINS = ("torch/utils/data/_utils/pin_memory.py", ("_pin_memory_loop",))


def _lost_batch(job: JobState, workers: list[int], awaited: int | None) -> WaitEdge:
    why = "all its DataLoader workers wait for work and the queue is empty: a batch was lost"
    if awaited is None:
        return WaitEdge((NoReleaser(why, tuple(workers), Absent.ITEM_LOST),), words="a batch that never arrives")
    why = f"{job.name(awaited)}, whose batch is next, waits for work and the queue is empty: the batch was lost"
    return WaitEdge(
        (NoReleaser(why, (awaited,), Absent.ITEM_LOST),), basis=Basis.MEMORY, words="a batch that never arrives"
    )


def _loader_workers(job: JobState, key: ThreadKey) -> list[int]:
    """The workers of the loader this thread reads from: with several loaders, those that hold its queue; none where those that
    hold it are still importing, beside workers of another loader.
    """
    children = job.clients.get(key[0], ())
    pipes = {item.id for item in job.waits_on(key) if item.kind == "pipe"}
    having = [pid for pid in children if pipes & job.held_by.get(pid, frozenset())]
    return [pid for pid in having or children if job.role(pid).kind == LOADER_WORKER]


def _awaited_worker(job: JobState, key: ThreadKey, workers: list[int]) -> int | None:
    """The worker with the next batch in order: `worker_id` in torch's `_next_data` (torch/utils/data/dataloader.py)."""
    stack = job.stacks.get(key)
    frame = next((row for row in stack.frames if bare(row.function) == "_next_data"), None) if stack else None
    number = (frame.known or {}).get("worker_id") if frame else None
    named = [pid for pid in workers if job.role(pid).name == f"dataloader worker {number}"]
    return named[-1] if named else None
