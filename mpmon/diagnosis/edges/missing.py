"""Why no thread is left that could end a wait within a process: fork did not copy it, it died, or it is native code."""

from __future__ import annotations

from mpmon.diagnosis.edges.replaced import replaced
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.stacks.copies import known_as
from mpmon.diagnosis.stacks.frames import has, in_call
from mpmon.diagnosis.stacks.native_waits import Sort
from mpmon.diagnosis.stacks.waits import LOCKS_OF_THREADS, MAY_BE_ASKED, POOL_TASKS, RESULTS, Wait, context
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

FROM_THREADS = MAY_BE_ASKED | {Wait.FUTURE_RESULT, Wait.JOIN_THREAD}
"""Waits for another thread of the process to act."""


_FUTEX_WAIT_PRIVATE = 0x80
"""What libgomp and libomp call directly; glibc's semaphores and conditions use FUTEX_WAIT_BITSET (linux/futex.h)."""

_CONTENDED_MUTEX = 2
"""The value a pthread mutex is expected to have while a thread waits for it (glibc's lowlevellock.h)."""

DELIVERS = (("multiprocessing/pool.py", ("_handle_results",)), ("concurrent/futures/process.py", ("run",)))
"""Threads that every result of a pool passes through, callbacks included."""


def why_no_thread(job: JobState, key: ThreadKey) -> Absent:
    """For a wait for threads of the same process, none of which can end it."""
    kind = job.wait_state(key).kind
    if kind in LOCKS_OF_THREADS:
        return _why_no_native(job, key)
    if kind in FROM_THREADS and left_in_parent(job, key):
        return Absent.LEFT_IN_PARENT
    stack = job.stacks.get(key)
    if in_call(stack, TURNS):
        return Absent.OWN_LOOP
    if is_of_pool(job, key):
        return Absent.POOL_EMPTY
    of_semaphore = kind is Wait.CONDITION and has(stack, "/threading.py", ("acquire",))
    return Absent.PERMIT_LOST if of_semaphore else Absent.THREAD_ENDED


def is_of_pool(job: JobState, key: ThreadKey) -> bool:
    """The thread waits in a queue of a library's own class, in which that keeps its connections: who took one gives it back."""
    state = job.wait_state(key)
    return (
        state.kind is Wait.THREAD_QUEUE and state.frame is not None and known_as(state.frame.file) != state.frame.file
    )


def why_no_result(job: JobState, key: ThreadKey, workers: list[int]) -> Absent:
    """For a wait for a result of a pool or an executor whose workers, if it has any, all wait for work."""
    died = replaced(job, workers) is not None
    if died and job.wait_state(key).kind is Wait.POOL_RESULT:
        return Absent.WORKER_REPLACED
    hands_over = deliverer_in_parent(job, key) or job.wait_state(key).kind in FROM_THREADS
    if hands_over and left_in_parent(job, key):
        return Absent.LEFT_IN_PARENT
    if not workers:
        return Absent.THREAD_ENDED
    return Absent.ITEM_LOST if died else Absent.RESULT_LOST


def _why_no_native(job: JobState, key: ThreadKey) -> Absent:
    if job.is_forked(key[0]):
        return _told_at_fork(job, key) or (
            Absent.NATIVE_AT_FORK if _in_native_barrier(job, key) else Absent.LOCKED_AT_FORK
        )
    if _siblings_in_copy(job, key):
        return Absent.LOCKED_AT_FORK
    fact = job.native_facts.get(key)
    if fact and fact.is_surely(Sort.PYTHON_LOCK) and job.may_be_native(key) and not job.may_be_called(key[0]):
        return Absent.ALONE
    return Absent.NATIVE if job.is_native(key) else Absent.OWN_LOCK


_AT_FORK = {
    Sort.TEAM: Absent.NATIVE_AT_FORK, Sort.LOCK: Absent.LOCKED_AT_FORK, Sort.PYTHON_LOCK: Absent.LOCKED_AT_FORK,
    Sort.SEMAPHORE: Absent.NATIVE, Sort.CONDITION: Absent.NATIVE, Sort.END: Absent.NATIVE,
}  # fmt: skip


def _told_at_fork(job: JobState, key: ThreadKey) -> Absent | None:
    """What the child of a fork lacks, by its C frames; `None` if they do not show it."""
    fact = job.native_facts.get(key)
    return _AT_FORK.get(fact.wait.sort) if fact and fact.certain and fact.wait else None


def _siblings_in_copy(job: JobState, key: ThreadKey) -> bool:
    """Another fork of the same process (a fork server, say) waits for a lock at the same address: each has a copy of it."""
    lock, process = job.wanted_lock(key), job.processes[key[0]]
    if lock is None or not process.forked:
        return False
    siblings = (
        row.pid for row in job.processes.values() if row.ppid == process.ppid and row.forked and row.pid != key[0]
    )
    wanted = (job.wanted_lock((pid, pid)) for pid in siblings)
    return any(other is not None and other.rpartition(":")[2] == lock.rpartition(":")[2] for other in wanted)


def _in_native_barrier(job: JobState, key: ThreadKey) -> bool:
    """The thread waits in a futex that is neither a mutex nor a semaphore of glibc."""
    blocked = job.blocked.get(key)
    if blocked is None or blocked.syscall != "futex" or len(blocked.args) < 3:
        return False
    _, operation, value, *_ = blocked.args
    return operation & 0xFF == _FUTEX_WAIT_PRIVATE and value != _CONTENDED_MUTEX


def left_in_parent(job: JobState, key: ThreadKey) -> bool:
    """The child of a fork has a single thread, apart from libraries' service threads, while its parent has one from before the
    fork that delivers the awaited result, or that is more than a service thread.
    """
    siblings = (other for other in job.threads(key[0]) if other != key)
    if not job.is_forked(key[0]) or any(job.wait_state(other).kind is not Wait.SERVICE for other in siblings):
        return False
    if deliverer_in_parent(job, key):
        return True
    parent = job.role(key[0]).parent
    # The kernel gives out ids in ascending order: threads with a greater one than the child's came later.
    others = [other for other in job.threads(parent or 0) if other[0] != other[1] < key[0]]
    return not all(job.wait_state(other).kind is Wait.SERVICE for other in others)


def deliverer_in_parent(job: JobState, key: ThreadKey) -> ThreadKey | None:
    """For a wait for a result of a pool or executor: the thread that delivers results in the process this one was forked
    from, or in that one's ancestors. `None` for a process with workers, which has its own pool, and for a pool's task.
    """
    pid = key[0]
    task = context(job.stacks.get(key))
    own = any(job.role(child).kind in POOL_WORKERS for child in job.clients.get(pid, ()))
    if job.wait_state(key).kind not in RESULTS or (task and task[0] in POOL_TASKS) or own:
        return None
    found = (other for parent in _forked_from(job, pid) for other in job.threads(parent) if is_deliverer(job, other))
    return next(found, None)


def is_deliverer(job: JobState, key: ThreadKey) -> bool:
    """The thread through which all results of a pool pass."""
    stack = job.stacks.get(key)
    return stack is not None and any(has(stack, *row) for row in DELIVERS)


def _forked_from(job: JobState, pid: int) -> list[int]:
    """The parent, its parent and so on, as long as each process is a fork of the next."""
    above: list[int] = []
    while job.is_forked(pid):
        pid = job.processes[pid].ppid
        above.append(pid)
    return above
