"""Waits for something to end: a child, a thread, a launcher's ranks, the interpreter itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.edges.missing import why_no_thread
from mpmon.diagnosis.edges.natives import native_threads
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, Target, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.progress.ticking import only_ticks
from mpmon.diagnosis.roles import HELPERS, LASTING, POOL_WORKERS
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.numerals import numeral

_WAITS_FOR_CHILD = frozenset({"wait4", "waitid"})


def end_of_process(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The children a thread waits for: by pid, by the sentinel pipe that only the child holds, or all children."""
    pid = key[0]
    targets: list[Target] = []
    # A fork server's children are the kernel's children of the server and work for this process.
    near = dict.fromkeys((*job.children.get(pid, ()), *job.clients.get(pid, ())))
    children = [child for child in near if job.role(child).kind not in HELPERS]
    named = [item.id.partition(":")[2] for item in job.waits_on(key) if item.kind == "process"]
    numbers = [numeral(name) for name in named]
    if named and all(number is not None and _has_ended(job, number) for number in numbers):
        # The wait is over: it was read before the process ended.
        return None
    for name, number in zip(named, numbers, strict=True):
        targets += exits(job, children if name == "any" else [] if number is None else [number])
    watched = [] if targets else _sentinels(job, key, children)
    if not targets:
        targets = _without_idle(job, list(exits(job, watched or children)))
    if not targets:
        return _no_children(job, key)
    names = ", ".join(_name(job, target) for target in targets[:4])
    # A script may wait for one command, and feed another one then.
    one_of_them = "any" in named and any(_is_fed(job, child, pid) for child in children)
    targets = _without_tickers(job, targets) if one_of_them else targets
    every = len(targets) > 1 and not one_of_them
    return WaitEdge(
        tuple(targets),
        every=every,
        basis=Basis.KERNEL.when(bool(named or watched) and not one_of_them),
        of_end=True,
        words=f"{names} to exit",
    )


def _is_fed(job: JobState, child: int, pid: int) -> bool:
    """The process, which has one thread, waits without a time limit for data of pipes that only the other one can write to."""
    blocked, items = job.blocked.get((child, child)), list(job.waits_on((child, child)))
    if blocked is None or blocked.writes or blocked.has_limit or job.processes[child].threads > 1 or not items:
        return False
    return all(item.kind == "pipe" and _writers(job, item.id) - {child} == {pid} for item in items)


def _writers(job: JobState, name: str) -> set[int]:
    return {row.pid for row in job.holders.get(name, ()) if row.writes}


def _without_tickers(job: JobState, targets: list[Target]) -> list[Target]:
    """Those that do more than look after others now and then; all if there are no such ones."""
    return [target for target in targets if isinstance(target, tuple) and not only_ticks(job, target)] or targets


def _without_idle(job: JobState, targets: list[Target]) -> list[Target]:
    """Those that the others wait for: a closed pool tells its idle workers to end once the last task is done. All if all idle."""
    idle = [
        target for target in targets
        if isinstance(target, tuple) and job.role(target[0]).kind in POOL_WORKERS and job.wait_state(target).idle
    ]  # fmt: skip
    return [target for target in targets if target not in idle] or targets


def _has_ended(job: JobState, pid: int) -> bool:
    """The process was seen to end, and no later one has its number."""
    return not job.is_alive(pid) and job.ended_at(pid) is not None


def exits(job: JobState, pids: Iterable[int]) -> Iterator[Target]:
    """The main threads of those that are alive: a process ends when its main thread does."""
    for pid in pids:
        if job.is_alive(pid):
            yield pid, pid


def _sentinels(job: JobState, key: ThreadKey, children: list[int]) -> list[int]:
    """Multiprocessing watches a pipe whose other end only the child holds: popen_fork.py, popen_spawn_posix.py."""
    pipes = {item.id for item in job.waits_on(key) if item.kind == "pipe"}
    waited = [pid for pid in job.clients.get(key[0], children) if job.role(pid).kind not in HELPERS]
    return [
        pid for pid in waited
        if any(handle.writes and handle.pid == pid for name in pipes for handle in job.holders.get(name, ()))
    ]  # fmt: skip


def _no_children(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """wait(2) returns at once if there is no child: the child ended after its parent was sampled. If there are only helpers of a
    library, which end once their parent has ended, it never returns.
    """
    blocked = job.blocked.get(key)
    waits = blocked is not None and blocked.syscall in _WAITS_FOR_CHILD
    alive = [pid for pid in job.children.get(key[0], ()) if job.is_alive(pid)]
    anyone = waits and any(item.id == "process:any" for item in job.waits_on(key))
    # Another thread, or a handler, may start a child.
    alone = len(job.threads(key[0])) == 1 and not job.may_be_called(key[0]) and not job.processes[key[0]].catches_term
    if anyone and alone and alive and all(job.role(pid).kind in LASTING for pid in alive):
        names = several([f"{job.full_name(pid)}" for pid in alive])
        why = f"the only child left is {names}, which ends when its parent does"
        nobody = NoReleaser(why, (key[0],), Absent.OWN_LIFE)
        return WaitEdge((nobody,), of_end=True, words="a child to exit", evidence=why)
    zombies = [pid for pid in job.children.get(key[0], ()) if not job.is_alive(pid)]
    if zombies or waits:
        return None
    return WaitEdge((External("a process outside the job"),), words="a child to exit")


def end_of_thread(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The joined thread; if it is unknown, the threads that are neither idle nor service threads."""
    if (joined := job.awaited(key)) and not _manages_executor(job, joined):
        return WaitEdge((joined,), basis=Basis.MEMORY, words=f"{job.thread_words(joined)} to end")
    others = [other for other in job.threads(key[0]) if other != key]
    if tasks := [worker for other in others if _manages_executor(job, other) for worker in _busy_workers(job, key[0])]:
        return WaitEdge(tuple(tasks), words="the tasks of an executor to finish")
    working = [other for other in others if not job.wait_state(other).idle] or others
    if not working:
        return (
            end_of_process(job, key)
            if job.children.get(key[0])
            else WaitEdge((_no_thread(job, key),), words="a thread to end")
        )
    return WaitEdge(tuple(working), every=len(working) > 1, words="a thread to end")


def _no_thread(job: JobState, key: ThreadKey) -> NoReleaser:
    return NoReleaser("no other Python thread is left in this process", reason=why_no_thread(job, key))


def _manages_executor(job: JobState, key: ThreadKey) -> bool:
    """The thread of a ProcessPoolExecutor, which ends with the last task."""
    stack = job.stacks.get(key)
    return has(stack, "concurrent/futures/process.py", ("run", "_queue_management_worker"))


def _busy_workers(job: JobState, pid: int) -> list[Target]:
    workers = [child for child in job.clients.get(pid, ()) if job.role(child).kind in POOL_WORKERS]
    return [target for target in exits(job, workers) if isinstance(target, tuple) and not job.wait_state(target).idle]


def end_of_interpreter(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """At interpreter exit: children by wait4, native threads by their number, else the threads that are not daemons."""
    if edge := native_threads(job, key):
        return edge
    if any(item.kind == "process" for item in job.waits_on(key)):
        return end_of_process(job, key)
    return end_of_thread(job, key)


def launched_ranks(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A launcher waits until every rank has ended."""
    children = [pid for pid in job.clients.get(key[0], ()) if job.may_act(pid)]
    if not children:
        return None
    return WaitEdge(
        tuple((pid, pid) for pid in children), every=True, of_end=True, words=f"{job.wait_state(key).words} to exit"
    )


def _name(job: JobState, target: Target) -> str:
    return job.name(target[0]) if isinstance(target, tuple) else str(target)
