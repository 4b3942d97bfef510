"""Waits for a lock, a permit or a condition between processes, by the ledgers of their semaphores and the owner words of
mutexes.
"""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.edges.dead import lost_relatives
from mpmon.diagnosis.edges.messages import message
from mpmon.diagnosis.edges.other_ends import acting_thread
from mpmon.diagnosis.edges.threads import other_threads
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, WaitEdge
from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import PROCESS_FILE
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, SemaphoreUse


def semaphore(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A lock or semaphore between processes: its holder by the ledger, else every process that maps it."""
    items = [item for item in job.waits_on(key) if item.kind == "semaphore"]
    if not items:
        return other_threads(job, key)
    if owner := _robust_owner(job, items) or _mutex_owner(job, items):
        return owner
    if any(item.value for item in items):
        return None
    item = items[0]
    if not any(handle.pid == key[0] for handle in job.holders.get(item.id, ())):
        # Not even the waiter is known to map it, so other users of it are unknown too.
        return WaitEdge((External("another process with the semaphore"),), words=job.wait_state(key).words)
    users = [handle.pid for handle in job.holders.get(item.id, ()) if job.may_act(handle.pid)]
    uses = [use for use in job.uses.get(item.id, ()) if job.is_alive(use.pid)]
    complete = bool(uses) and not (set(users) & job.without_ledger)
    if strangers := job.outsiders.get(item.id):
        outside = tuple(
            External(f"pid {pid}, which is not part of this job") for pid in dict.fromkeys(row.pid for row in strangers)
        )
        edge = _counted(job, key, item, [pid for pid in users if pid != key[0]], [])
        known = [target for target in edge.targets if not isinstance(target, NoReleaser)]
        return WaitEdge((*known, *outside), words=edge.words, evidence=edge.evidence)
    if complete and (stack := job.stacks.get(key)) and has(stack, *_NOTIFIES):
        return _woken(job, key, item, users)
    if _is_lock(uses) and complete:
        return _lock(job, key, item, uses, _busy(job, item, users))
    return _counted(job, key, item, [pid for pid in users if pid != key[0]], uses if complete else [])


_ROBUST_WAITERS, _ROBUST_TID = 0x8000_0000, 0x3FFF_FFFF
"""FUTEX_WAITERS and FUTEX_TID_MASK of linux/futex.h: the word of a robust pthread mutex, such as LMDB's, names its
owner.
"""


def _robust_owner(job: JobState, items: list[KernelObject]) -> WaitEdge | None:
    """For a robust mutex in shared memory: the living thread of the job that the mutex word names as its owner."""
    for item in items:
        word = item.value or 0
        owners = [row for row in job.snapshot.threads if row.tid == word & _ROBUST_TID]
        if word & _ROBUST_WAITERS and len(owners) == 1 and job.is_alive(owners[0].pid):
            owner = (owners[0].pid, owners[0].tid)
            words = f"a mutex that {job.name(owner[0])} holds"
            evidence = f"the word of the mutex {item.id} names thread {owner[1]} of pid {owner[0]} as its owner"
            return WaitEdge((owner,), every=True, basis=Basis.MEMORY, holder_known=True, words=words, evidence=evidence)
    return None


def _mutex_owner(job: JobState, items: list[KernelObject]) -> WaitEdge | None:
    """For another pthread mutex in shared memory: the thread that its owner word names, dead or alive."""
    item = next((item for item in items if item.owner_tid is not None), None)
    if item is None:
        return None
    owner = next(((row.pid, row.tid) for row in job.snapshot.threads if row.tid == item.owner_tid), None)
    evidence = f"the mutex {item.id} names thread {item.owner_tid} as its owner"
    if owner and job.is_alive(owner[0]):
        words = f"a mutex that {job.name(owner[0])} holds"
        return WaitEdge((owner,), every=True, basis=Basis.MEMORY, holder_known=True, words=words, evidence=evidence)
    if job.outsiders.get(item.id):
        return WaitEdge((External(f"thread {item.owner_tid} of another job"),), words="a mutex", evidence=evidence)
    why = f"{evidence}, and no process that has it has such a thread: it ended without releasing it"
    nobody = NoReleaser(why, (item.owner_tid,) if item.owner_tid else (), Absent.HOLDER_ENDED)
    # Memory without a name is shared by forks alone; a file may be mapped by a process that mpmon may not read.
    basis = Basis.MEMORY.when((item.path or "").endswith(" (deleted)"))
    return WaitEdge((nobody,), basis=basis, words="a mutex whose owner ended", evidence=why)


def _is_lock(uses: list[SemaphoreUse]) -> bool:
    """A semaphore of one permit that is released by the process that took it: no count is negative, and at most one process
    holds it.

    A lock that one process takes and another releases is used as a signal, and a bare `os.fork` copies the count.
    """
    counts = [use.count for use in uses]
    return all(use.max_value == 1 for use in uses) and min(counts, default=0) >= 0 and _owners(uses) <= 1


def _owners(uses: list[SemaphoreUse]) -> int:
    return sum(1 for use in uses if use.count > 0)


def _busy(job: JobState, item: KernelObject, users: list[int]) -> tuple[ThreadKey, ...]:
    """Working threads of the processes that have a semaphore. They may release it later even if they never acquired it: a
    semaphore may begin without permits, and a lock may be used as a signal. Libraries' own threads are excluded: they do
    not touch the user's semaphores.
    """
    threads = (key for pid in users for key in dict.fromkeys(((pid, pid), *job.threads(pid))))
    return tuple(key for key in threads if _works(job, item, key))


def _works(job: JobState, item: KernelObject, key: ThreadKey) -> bool:
    row, kind = job.blocked.get(key), job.wait_state(key).kind
    if job.wait_state(key).idle or job.serves_library(key) or (row is not None and item.id in row.waits_on):
        return False
    if job.keeps_books(key) or job.only_polls(key):
        return False
    if kind in (Wait.SLEEP, Wait.RUNNING, Wait.FILE, Wait.GPU):
        return True
    ended = {f"process:{handle.pid}" for handle in job.holders.get(item.id, ())}
    if kind in (Wait.CHILD, Wait.JOIN_PROCESS):
        # Waiting for a called program counts as working: that program does not have the semaphore.
        return (
            row is not None
            and bool(row.waits_on)
            and not any(
                name in ended or not name.startswith("process:") or name == "process:any" for name in row.waits_on
            )
        )
    return job.motion(key) in (Motion.PROGRESSING, Motion.BUSY_LOOP)


def _lock(
    job: JobState, key: ThreadKey, item: KernelObject, uses: list[SemaphoreUse], busy: tuple[ThreadKey, ...]
) -> WaitEdge:
    """One permit: the process with a positive count holds it."""
    owners = [job.by_ident(use.pid, use.thread_ident) for use in uses if use.count > 0]
    lost = lost_relatives(job, key[0], certain=True)
    if busy and (key in owners or not (owners or any(gone.status for gone in lost))):
        return WaitEdge(tuple(dict.fromkeys((*owners, *busy))), words="a lock that other processes may release")
    if owners:
        names = job.names(owners)
        evidence = (
            f"{item.id} has value 0; by its acquire counts, pid {', '.join(str(pid) for pid, _ in owners)} holds it"
        )
        # Any process that has the lock may release it: a holder that waits for its own lock may use it as a signal.
        alone = not any(job.others_at_work(owner) for owner in owners)
        users = {handle.pid for handle in job.holders.get(item.id, ()) if job.may_act(handle.pid)}
        exact = alone and not (key in owners and users - {key[0]})
        return WaitEdge(
            tuple(owners),
            every=True,
            basis=Basis.LEDGER.when(exact),
            holder_known=True,
            words=f"a lock held by {names}",
            evidence=evidence,
        )
    why = f"the lock {item.id} is taken, but no living process holds it: its holder ended without releasing it"
    dead = tuple(gone.pid for gone in lost)
    # Any process may release another's lock, unless it is recursive: else only a crash of the holder leaves no doubt.
    exact = any(gone.status for gone in lost) or all(use.recursive for use in uses)
    return WaitEdge(
        (NoReleaser(why, dead, Absent.HOLDER_ENDED),),
        basis=Basis.LEDGER.when(exact),
        words="a lock that no living process holds",
        evidence=why,
    )


def _counted(job: JobState, key: ThreadKey, item: KernelObject, users: list[int], uses: list[SemaphoreUse]) -> WaitEdge:
    """A semaphore of many permits, or one behind an event: the processes that hold or consumed permits, or at least map it."""
    kind, words = job.wait_state(key).kind, job.wait_state(key).words
    evidence = f"{item.id} has value 0"
    dead = lost_relatives(job, key[0], certain=False)
    if kind is Wait.QUEUE_PUT:
        consumers = [use.pid for use in uses if use.count < 0]
        rest = [pid for pid in users if not any(use.pid == pid and use.count > 0 for use in uses)] if uses else users
        users = consumers or rest
        # One living consumer suffices; exited processes matter only if none is left.
        dead = [] if consumers else dead
    elif kind is Wait.PROCESS_EVENT:
        # The processes outside the barrier have yet to arrive.
        users = (
            [pid for pid in users if not _is_in_barrier(job, pid, item)] if in_barrier(job.stacks.get(key)) else users
        )
        users = [pid for pid in users if not _only_sends(job, pid)] or users
    elif kind is Wait.LOCK and uses:
        return _permits(job, key, item, uses, _busy(job, item, [key[0], *users]))
    # Only a thread that takes items makes room in a queue, and no feeder thread of a queue sets an event.
    of_user = kind in (Wait.QUEUE_PUT, Wait.PROCESS_EVENT)
    hands = {pid: (pid, pid) if of_user else acting_thread(job, pid) for pid in users if pid != key[0]}
    # Any other thread of such a process may set it, or start one that will.
    beside = (
        [other for hand in hands.values() for other in job.others_at_work(hand)] if kind is Wait.PROCESS_EVENT else []
    )
    targets = tuple(dict.fromkeys((*(_taker(job, pid, item) or hand for pid, hand in hands.items()), *beside)))
    if not targets and kind is Wait.PROCESS_EVENT and (starting := _starting(job, key[0])):
        return WaitEdge(starting, of_sign=True, words=words)
    if not targets and not dead:
        full = kind is Wait.QUEUE_PUT and any(use.max_value > 1 for use in uses)
        reason = Absent.NO_CONSUMER if full else Absent.HOLDER_ENDED
        if full and any(use.pid == key[0] and use.count < 0 for use in uses):
            reason = Absent.OWN_ROOM
        why = "no living process could release it"
        if kind is Wait.PROCESS_EVENT:
            reason, why = Absent.NOT_SHARED, "no other process has it"
        return WaitEdge((NoReleaser(why, (key[0],), reason),), words=words)
    certain = [msgspec.structs.replace(gone, certain=True) for gone in dead] if not targets else dead
    return WaitEdge(
        (*targets, *certain),
        of_sign=kind is Wait.PROCESS_EVENT,
        of_room=kind is Wait.QUEUE_PUT,
        words=words,
        evidence=evidence,
    )


def _starting(job: JobState, pid: int) -> tuple[ThreadKey, ...]:
    """Children started by spawn that have not yet got what they were given (multiprocessing/spawn.py)."""
    stacks = ((child, job.stacks.get((child, child))) for child in job.clients.get(pid, ()) if job.is_alive(child))
    return tuple(
        (child, child) for child, stack in stacks if stack and has(stack, *_SPAWNED) and not has(stack, *_BEGUN)
    )


_SPAWNED = ("multiprocessing/spawn.py", ("spawn_main", "_main"))
_BEGUN = (PROCESS_FILE, ("_bootstrap",))


def _only_sends(job: JobState, pid: int) -> bool:
    """Its script has ended, and what it has put into queues is all that it still does."""
    main = (pid, pid)
    others = [other for other in job.others_at_work(main) if not is_feeder(job.stacks.get(other))]
    return job.wait_state(main).kind is Wait.EXIT and not others


_NOTIFIES = ("multiprocessing/synchronize.py", ("notify",))
_SLEEPS = ("multiprocessing/synchronize.py", ("wait",))


def _woken(job: JobState, key: ThreadKey, item: KernelObject, users: list[int]) -> WaitEdge:
    """A thread that notifies a condition between processes waits until each that slept in it says that it woke
    (multiprocessing/synchronize.py): those in its `wait`, but none that has woken and now wants the lock of the condition.
    """
    others = (other for pid in users if pid != key[0] for other in job.threads(pid) or [(pid, pid)])
    owing = tuple(other for other in others if _may_sleep(job, other) and not _wants_lock_of(job, other, key[0]))
    words, evidence = "the processes it notified to wake up", f"{item.id} has value 0"
    if owing:
        return WaitEdge(owing, words=words, evidence=evidence)
    why = "every living waiter has confirmed that it woke; one ended before it did"
    gone = tuple(row.pid for row in lost_relatives(job, key[0], certain=True))
    return WaitEdge((NoReleaser(why, gone or (key[0],), Absent.SLEEPER_ENDED),), words=words, evidence=evidence)


def _may_sleep(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for a condition between processes, as far as its stack is known."""
    stack = job.stacks.get(key)
    return stack is None or has(stack, *_SLEEPS)


def _wants_lock_of(job: JobState, key: ThreadKey, pid: int) -> bool:
    """The thread waits for a lock that this process has."""
    uses = (use for item in job.waits_on(key) for use in job.uses.get(item.id, ()) if use.pid == pid)
    return any(use.max_value == 1 and use.count > 0 for use in uses)


def _is_in_barrier(job: JobState, pid: int, item: KernelObject) -> bool:
    row = job.blocked.get((pid, pid))
    return row is not None and item.id in row.waits_on and in_barrier(job.stacks.get((pid, pid)))


def _taker(job: JobState, pid: int, item: KernelObject) -> ThreadKey | None:
    """A thread other than the main thread that itself waits for the semaphore: the user of the queue in that process."""
    main = (pid, pid)
    waiting = [key for key in job.threads(pid) if (row := job.blocked.get(key)) and item.id in row.waits_on]
    return waiting[0] if waiting and main not in waiting else None


def _permits(
    job: JobState, key: ThreadKey, item: KernelObject, uses: list[SemaphoreUse], busy: tuple[ThreadKey, ...]
) -> WaitEdge:
    """A semaphore of several permits, or one that any process may release: the processes that released more than they took,
    else the holders of permits and all working threads.
    """
    givers = [use for use in uses if use.count < 0]
    takers = tuple(job.by_ident(use.pid, use.thread_ident) for use in uses if use.count > 0)
    # Who waits for one more permit cannot give back the one that it has.
    owners = tuple(owner for owner in takers if owner != key) or takers
    if givers:
        return WaitEdge(tuple((use.pid, use.pid) for use in givers), words="a semaphore that other processes release")
    dead = tuple(gone.pid for gone in lost_relatives(job, key[0], certain=False))
    # One that nobody took may be a signal, which another process gives once its own wait is over, or when somebody connects.
    pids = [] if owners or dead else [use.pid for use in uses if use.pid != key[0]]
    others = _beside(job, item, pids) or tuple(server for pid in pids for server in job.accepting.get(pid, ()))
    if not owners and (givers_to_be := busy or others):
        return WaitEdge(
            givers_to_be, words="a semaphore that other processes release", evidence=f"{item.id} has value 0"
        )
    if not owners:
        why = f"no living process holds a permit of {item.id}, and none that uses it is making progress"
        return WaitEdge(
            (NoReleaser(why, dead, Absent.HOLDER_ENDED),),
            words="a semaphore whose permits no living process holds",
            evidence=why,
        )
    names = job.names(owners)
    evidence = (
        f"{item.id} has value 0; by its acquire counts, pid {', '.join(str(pid) for pid, _ in owners)} took permits"
    )
    targets = tuple(dict.fromkeys((*owners, *busy)))
    return WaitEdge(
        targets,
        holder_known=not busy,
        words=f"a semaphore whose permits were taken by {names}",
        evidence=evidence,
    )


def _beside(job: JobState, item: KernelObject, pids: list[int]) -> tuple[ThreadKey, ...]:
    """The threads of these processes that are not idle, and wait neither for the semaphore themselves nor for a process to end,
    such as the one that waits for the semaphore.
    """
    threads = [key for pid in dict.fromkeys(pids) for key in job.working_threads(pid)]
    free = (key for key in threads if job.wait_state(key).kind not in ENDS_OF_PROCESSES)
    return tuple(key for key in free if not ((row := job.blocked.get(key)) and item.id in row.waits_on))


def queue_item(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A multiprocessing queue blocks in its lock or semaphore, or in its pipe."""
    locked = any(item.kind == "semaphore" for item in job.waits_on(key))
    return semaphore(job, key) if locked else message(job, key)
