"""Waits for service processes: DataLoader workers, pools, executors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from mpmon.diagnosis.edges.callbacks import Callbacks
from mpmon.diagnosis.edges.dead import gone_children
from mpmon.diagnosis.edges.messages import message
from mpmon.diagnosis.edges.missing import is_deliverer, why_no_result
from mpmon.diagnosis.edges.output import end_or_output
from mpmon.diagnosis.edges.replaced import STARTS_WORKERS, of_worker, replaced
from mpmon.diagnosis.edges.threads import other_threads
from mpmon.diagnosis.graph import Absent, Basis, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.stacks.frames import called_by_user, calls, has, in_call
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, POOL_TASKS, Wait, context
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import FEWEST_ENDS, FROZEN_AFTER_S


def end_or_callback(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The end of a process; for a pool, first the callback that holds up its results."""
    frame = job.wait_state(key).frame
    of_pool = frame is not None and calls(frame, "multiprocessing/pool.py", ("join",))
    busy = [other for other in job.threads(key[0]) if is_deliverer(job, other) and not job.wait_state(other).idle]
    return _delivered(job, key) if of_pool and busy else end_or_output(job, key)


_OWN_LOOP = "a result that only its own event loop could deliver"
_OWN_DELIVERY = "a result that only this thread could deliver"


def future_result(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The thread that runs the future's task; else busy workers of an executor; else another thread or its event loop."""
    if runner := job.awaited(key):
        # Who waits for the end of a service serves, too.
        if runner != key and (job.wait_state(runner).idle or any(item.listens for item in job.waits_on(runner))):
            return None
        words = _OWN_LOOP if runner == key else f"the result of a task that {job.thread_words(runner)} runs"
        return WaitEdge((runner,), every=runner == key, basis=Basis.MEMORY, words=words)
    if edge := _queued_task(job, key):
        return edge
    stack = job.stacks.get(key)
    task = context(stack)
    in_pool = task is not None and task[0] in POOL_TASKS
    workers = any(job.role(child).kind in POOL_WORKERS for child in job.clients.get(key[0], ()))
    if workers or executor_threads(job, key) or in_pool or _has_executor(job, key[0]):
        return pool_result(job, key)
    if in_call(stack, TURNS):
        return WaitEdge((key,), every=True, words=_OWN_LOOP)
    if held := job.of(Callbacks).holding(key[0]):
        others = [other for other in held if other != key]
        return _by_deliverers(job, others) if others else WaitEdge((key,), every=True, words=_OWN_DELIVERY)
    return other_threads(job, key)


def _queued_task(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A task queued in an executor waits for any of the executor's threads. If all of these wait for such queued tasks, each
    needs another one: the edge then leads to the next thread, so that they form a cycle.
    """
    threads = job.queued_for(key)
    if not threads:
        return None
    names = several([job.thread_name(thread) for thread in threads])
    evidence = f"the awaited task is in the queue of its executor, whose only threads are {names}"
    words = f"a queued task that only {names} could run"
    if key in threads and all(job.queued_for(thread) == threads for thread in threads):
        following = threads[(threads.index(key) + 1) % len(threads)]
        return WaitEdge((following,), every=True, basis=Basis.MEMORY, words=words, evidence=evidence)
    return WaitEdge(threads, basis=Basis.MEMORY, words=words, evidence=evidence)


def pool_workers(job: JobState, pid: int) -> list[int]:
    """The workers of the process's pools, by their frames; if none is recognised, any child made by multiprocessing may be
    one. Those of concurrent.futures are always recognised, once they have started.
    """
    children = job.clients.get(pid, ())
    workers = [child for child in children if job.role(child).kind in POOL_WORKERS]
    others = [child for child in children if job.role(child).kind == "process"]
    if not workers and _has_executor(job, pid):
        return [child for child in others if job.role(child).target is None]
    # One whose frames cannot be read, because it runs too fast, may be a worker, too.
    unread = [child for child in others if workers and not job.has_frames(child) and not job.role(child).target_known]
    return [*workers, *unread] or others


def _has_executor(job: JobState, pid: int) -> bool:
    """One of its threads collects the results of a `ProcessPoolExecutor`."""
    stacks = (job.stacks.get(key) for key in job.threads(pid))
    return any(has(stack, "concurrent/futures/process.py", ("run",)) for stack in stacks)


def executor_threads(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    """The process's other threads that run tasks of an executor, or of a `multiprocessing.pool.ThreadPool`."""
    others = [other for other in job.threads(key[0]) if other not in (key, (key[0], key[0]))]
    found = [(other, context(job.stacks.get(other))) for other in others]
    return [other for other, row in found if row and row[0] in POOL_TASKS]


def _beside(job: JobState, key: ThreadKey, workers: Collection[int]) -> list[ThreadKey]:
    """For a future, which need not belong to the pool that is known: other threads in an event loop, since coroutines provide
    results too, and children in which another library runs the user's code; beside a pool of threads, whose tasks are known, also
    threads of the user's that read answers.
    """
    if job.wait_state(key).kind is not Wait.FUTURE_RESULT:
        return []
    threads = [other for other in job.threads(key[0]) if other != key]
    loops = (other for other in threads if job.wait_state(other).kind is Wait.EVENT_LOOP)
    readers = (
        () if workers or _has_executor(job, key[0]) else (other for other in threads if _reads_answers(job, other))
    )
    others = busy_threads(job, (pid for pid in job.clients.get(key[0], ()) if pid not in workers))
    return [*loops, *readers, *(other for other in others if job.shape(other).runs)]


def _reads_answers(job: JobState, key: ThreadKey) -> bool:
    """A thread whose function is the user's waits for data; the result of a future may be what it reads."""
    stack = job.stacks.get(key)
    own = key[0] != key[1] and called_by_user(stack) and context(stack) is None if stack else False
    return own and job.wait_state(key).kind in _BRINGS_ANSWERS


_BRINGS_ANSWERS = COMES_BY_READING | {Wait.SOCKET, Wait.POLL}

_PART_OF_POOL = ("multiprocessing/pool.py", ("_handle_workers", "_handle_tasks"))


def _delivered(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The thread that delivers results, if it is busy with a callback or gone; `None` if it waits for results."""
    if is_deliverer(job, key):
        return WaitEdge((key,), every=True, words=_OWN_DELIVERY)
    threads = job.threads(key[0])
    deliverers = [other for other in threads if is_deliverer(job, other)]
    if busy := [other for other in deliverers if not job.wait_state(other).idle]:
        return _by_deliverers(job, busy)
    others = [other for other in threads if (stack := job.stacks.get(other)) and has(stack, *_PART_OF_POOL)]
    if others and not deliverers:
        why = "the pool's thread that delivers results (Pool._handle_results) has died"
        return WaitEdge((NoReleaser(why, reason=Absent.THREAD_ENDED),), words="the pool's results", evidence=why)
    return None


def _by_deliverers(job: JobState, threads: list[ThreadKey]) -> WaitEdge:
    names = several([job.thread_name(other) for other in threads])
    return WaitEdge(tuple(threads), every=True, words=f"results that thread {names} delivers")


def _feeding(job: JobState, key: ThreadKey) -> tuple[ThreadKey, ...]:
    """The pool's thread that hands out tasks, blocked in the iterable that the program passed in."""
    threads = (other for other in job.threads(key[0]) if other != key and not job.wait_state(other).idle)
    return tuple(other for other in threads if (stack := job.stacks.get(other)) and has(stack, *_HANDS_OUT))


_HANDS_OUT = ("multiprocessing/pool.py", ("_handle_tasks",))


def _fruitless(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A pool replaces workers that end without having given a result: at the moment it has none, although one of its threads
    starts a new one within a tenth of a second, or several ended; and the thread that takes results has not run for a while.
    """
    threads = job.threads(key[0])
    if not any((stack := job.stacks.get(other)) and has(stack, *STARTS_WORKERS) for other in threads):
        return None
    moments = [past.ran_at for other in threads if is_deliverer(job, other) and (past := job.thread_history(other))]
    if not moments or job.now - max(moments) < FROZEN_AFTER_S:
        return None
    ended = [
        row.pid
        for row in job.snapshot.exits
        if row.process.ppid == key[0] and row.seen_at > max(moments) + FROZEN_AFTER_S
    ]
    if len(ended) >= FEWEST_ENDS:
        why = f"{len(ended)} workers of the pool ended, and no result came: pids {several([str(pid) for pid in ended])}"
    elif not _has_children(job, key[0]) and not any(_runs_tasks(job, other) for other in threads):
        why = "the pool has no worker although one of its threads starts them: each ends as soon as it was started"
    else:
        return None
    return WaitEdge((NoReleaser(why, reason=Absent.WORKERS_END),), words="the result of a pool task", evidence=why)


def _has_children(job: JobState, pid: int) -> bool:
    """Some child is alive that may be a worker, or may become one once it has imported what it needs."""
    # A fork server makes the workers of its client.
    children = {*job.children.get(pid, ()), *job.clients.get(pid, ())}
    return any(job.may_act(child) for child in children)


def _runs_tasks(job: JobState, key: ThreadKey) -> bool:
    """The thread is a worker of a `ThreadPool`."""
    stack = job.stacks.get(key)
    return has(stack, "multiprocessing/pool.py", ("worker",))


def pool_result(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Busy workers of the pool, or busy threads of an executor in this process."""
    if edge := _delivered(job, key):
        return edge
    if edge := _fruitless(job, key):
        return edge
    workers = pool_workers(job, key[0])
    at_work = _with_tasks(job, list(busy_threads(job, workers)), workers)
    busy = [*at_work, *executor_threads(job, key), *_beside(job, key, workers)]
    if not busy and (feeding := _feeding(job, key)):
        return WaitEdge(feeding, words="tasks that the pool takes from the program", evidence=idle_words(job, workers))
    if busy:
        return WaitEdge(tuple(busy), words="the result of a pool task", evidence=idle_words(job, workers))
    # An executor notices a worker that crashed; one that ended without an error had done its share (max_tasks_per_child).
    gone = [one for one in gone_children(job, key[0], POOL_WORKERS) if one.status or not _has_executor(job, key[0])]
    if gone:
        return WaitEdge(tuple(gone), words="result from a pool worker that ended")
    if any(_serves_in_task(job, pid) for pid in workers):
        return None
    if not workers and _has_executor(job, key[0]):
        why = "the executor has no worker process left, and has started no other one"
        return WaitEdge(
            (NoReleaser(why, (key[0],), Absent.NO_WORKERS),), words="the result of a pool task", evidence=why
        )
    reason = why_no_result(job, key, workers)
    task = context(job.stacks.get(key)) if not workers else None
    of_task = "all workers of its pool wait in tasks themselves"
    why = of_task if task and task[0] in POOL_TASKS else "all pool workers wait for work: the task's result was lost"
    died = replaced(job, workers) if reason is Absent.WORKER_REPLACED else None
    # A worker sends a result before it asks for the next task, so a living one has lost none.
    dead = died.dead if died else ()
    blame = dead or ((key[0],) if reason in (Absent.RESULT_LOST, Absent.WORKER_REPLACED) else tuple(workers))
    return WaitEdge((NoReleaser(why, blame, reason),), words="the result of a pool task")


def _serves_in_task(job: JobState, pid: int) -> bool:
    """The worker's task is a server: it waits for requests, and may return at any time."""
    in_task = context(job.stacks.get((pid, pid))) is not None
    return in_task and job.wait_state((pid, pid)).kind is Wait.SERVICE


def started_process(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The fork server, which sends the pid of the new process over a pipe whose end it may not have received yet."""
    servers = tuple((pid, pid) for pid in job.processes if job.role(pid).kind == "forkserver" and job.is_alive(pid))
    return WaitEdge(servers, every=len(servers) == 1, words=job.wait_state(key).words) if servers else message(job, key)


def _with_tasks(job: JobState, busy: list[ThreadKey], workers: list[int]) -> list[ThreadKey]:
    """The busy ones of a pool's workers, without those that took the place of others and are still in its initializer: they have
    no task, and others are free for one.
    """
    began = {pid: "completed" in of_worker(job.stacks.get((pid, pid))) for pid in workers}
    late = any(began.values()) and not any(began[pid] for pid, _ in busy) and replaced(job, workers) is not None
    return [] if late else busy


def busy_threads(job: JobState, pids: Iterable[int]) -> Iterator[ThreadKey]:
    """Threads of these processes that are not idle: the main thread, else a blocked helper."""
    for pid in pids:
        if not job.is_alive(pid):
            continue
        if not job.wait_state((pid, pid)).idle:
            yield pid, pid
            continue
        for other in job.threads(pid):
            if other[1] != pid and job.wait_state(other).kind in (Wait.PIPE_WRITE, Wait.LOCK):
                yield other


def idle_words(job: JobState, pids: Iterable[int]) -> str:
    """Which workers have nothing to do, as evidence; empty if all have."""
    idle = [job.role(pid).name for pid in pids if job.wait_state((pid, pid)).idle]
    return f"{several(idle)} {'is' if len(idle) == 1 else 'are'} idle" if idle else ""
