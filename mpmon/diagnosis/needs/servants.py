"""Waits for somebody who serves: DataLoader workers, pools, executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.frames import bare
from mpmon.diagnosis.graph import Need, Nobody, Outside
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.needs.dead import gone_children
from mpmon.diagnosis.needs.objects import has_mail
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.waits import Context, Wait, context
from mpmon.diagnosis.words import several


def loader_batch(case: Case, key: ThreadKey) -> Need | None:
    """The worker whose batch is next in order; else all that have something to do: the others are idle by right."""
    if has_mail(case, key):
        return None
    workers = _loader_workers(case, key)
    awaited = _awaited_worker(case, key, workers)
    busy = list(busy_threads(case, workers))
    next_busy = [other for other in busy if other[0] == awaited]
    if next_busy:
        words = f"batch from {case.role(next_busy[0][0]).name}"
        return Need(tuple(next_busy), exact=True, words=words, evidence=_idle_words(case, workers))
    if busy:
        names = several([case.role(pid).name for pid in dict.fromkeys(pid for pid, _ in busy)])
        return Need(tuple(busy), words=f"batch from {names}", evidence=_idle_words(case, workers))
    gone = gone_children(case, key[0], "dataloader worker")
    if gone:
        return Need(tuple(gone), words="batch from a DataLoader worker that ended")
    if not workers:
        return Need((Nobody("it has no DataLoader workers"),), words="next batch")
    return _lost_batch(case, workers, awaited)


def _lost_batch(case: Case, workers: list[int], awaited: int | None) -> Need:
    why = "all its DataLoader workers wait for work and nothing is in the queue: a batch was lost"
    if awaited is None:
        return Need((Nobody(why, tuple(workers)),), words="a batch that never comes")
    why = f"{case.role(awaited).name}, whose batch is next, waits for work and nothing is in the queue: the batch was lost"
    return Need((Nobody(why, (awaited,)),), exact=True, words="a batch that never comes")


def _loader_workers(case: Case, key: ThreadKey) -> list[int]:
    """The workers of the loader this thread reads from: with several loaders, those that hold its queue."""
    workers = [pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind == "dataloader worker"]
    pipes = {item.id for item in case.waits_on(key) if item.kind == "pipe"}
    return [pid for pid in workers if pipes & case.held_by.get(pid, frozenset())] or workers


def _awaited_worker(case: Case, key: ThreadKey, workers: list[int]) -> int | None:
    """Who has the batch that is next in order: `worker_id` in torch's `_next_data` (torch/utils/data/dataloader.py)."""
    stack = case.stacks.get(key)
    frame = next((row for row in stack.frames if bare(row.function) == "_next_data"), None) if stack else None
    number = (frame.known or {}).get("worker_id") if frame else None
    named = [pid for pid in workers if case.role(pid).name == f"dataloader worker {number}"]
    return named[-1] if named else None


def pool_result(case: Case, key: ThreadKey) -> Need | None:
    """Busy workers of the pool, or busy threads of an executor in this process."""
    workers = [pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind in ("pool worker", "process")]
    threads = [
        other
        for other in case.threads(key[0])
        if other != key and (found := context(case.stacks.get(other))) and found[0] is Context.EXECUTOR_THREAD
    ]
    busy = [*busy_threads(case, workers), *threads]
    if busy:
        return Need(tuple(busy), words="result of a pool task", evidence=_idle_words(case, workers))
    if gone := gone_children(case, key[0], "pool worker"):
        return Need(tuple(gone), words="result from a pool worker that ended")
    if _service_busy(case, key[0]):
        return None
    return Need(
        (Nobody("all pool workers wait for work: the task's result was lost", tuple(workers)),), words="pool result"
    )


def event_loop(case: Case, key: ThreadKey) -> Need | None:
    """Whoever may complete one of its futures: another thread, a busy worker, a child, else the world outside."""
    threads = [other for other in case.threads(key[0]) if other != key and not case.standing(other).idle]
    workers = list(
        busy_threads(case, [pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind not in HELPERS])
    )
    words = case.standing(key).words
    if threads or workers:
        return Need((*threads, *workers), words=words)
    return Need((Outside("the outside world, or a future that nobody completes"),), words=words)


def busy_threads(case: Case, pids: Iterable[int]) -> Iterator[ThreadKey]:
    """Threads of these processes that are not idle: the main thread, else a helper that is held up."""
    for pid in pids:
        if not case.is_alive(pid):
            continue
        if not case.standing((pid, pid)).idle:
            yield pid, pid
            continue
        for other in case.threads(pid):
            if other[1] != pid and case.standing(other).kind in (Wait.PIPE_WRITE, Wait.LOCK):
                yield other


def _idle_words(case: Case, pids: Iterable[int]) -> str:
    idle = [case.role(pid).name for pid in pids if case.standing((pid, pid)).idle]
    if not idle:
        return ""
    return f"{', '.join(idle[:4])}{' …' if len(idle) > 4 else ''} idle: waits for work"


def _service_busy(case: Case, pid: int) -> bool:
    """A helper thread of the pool that runs may be about to bring the result."""
    return any(
        case.motion(key) is Motion.MOVING for key in case.threads(pid) if case.standing(key).kind is Wait.SERVICE
    )
