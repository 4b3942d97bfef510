"""Waits for a lock of a file: flock(2), fcntl(2), and those that are only tried again and again."""

from __future__ import annotations

from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.state.retried_locks import SHARED_MEMORY, locks_of_others, own_locks, polled_locks
from mpmon.model import KernelObject


def file_lock(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """flock(2) and fcntl(2): the processes whose open files hold the lock."""
    asked = list(job.waits_on(key))
    items = asked or polled_locks(job, key, job.read_wait(key).kind) or retried_locks(job, key[0])
    pids = list(dict.fromkeys(pid for item in items for pid in item.kept_by(key[0])))
    inside = [_inside(job, pid) for pid in pids if job.is_alive(pid)]
    path = next((item.path for item in items if item.path), "a file")
    words = f"the lock on {path}"
    if heirs := _heirs(job, items):
        taker, keeper = (several([str(pid) for pid in pids]) for pids in (items[0].takers, heirs))
        since = "closed it" if all(map(job.is_alive, items[0].takers)) else "ended"
        why = (
            f"{path} was locked by pid {taker}, which has since {since}; the open file that pid "
            f"{keeper} inherited through a fork keeps the lock: /proc/locks, and `lock:` in /proc/PID/fdinfo"
        )
        return WaitEdge(
            (NoReleaser(why, heirs, Absent.INHERITED),), basis=Basis.KERNEL.when(bool(asked)), words=words, evidence=why
        )
    if inside:
        evidence = f"{path} is locked by pid {', '.join(map(str, pids))}: /proc/locks, and `lock:` in /proc/PID/fdinfo"
        # An open file shared through a fork is one lock, and each process that has it open may release it.
        others = {handle.pid for item in items for handle in job.holders.get(item.id, ())} - {key[0], *pids}
        exact = bool(asked) and not others and not any(job.others_at_work(owner) for owner in inside)
        return WaitEdge(
            tuple(inside),
            every=bool(asked),
            basis=Basis.KERNEL.when(exact),
            holder_known=True,
            words=words,
            evidence=evidence,
        )
    if pids:
        return WaitEdge(
            (External(f"pid {pids[0]}, which is not part of this job, holds {words}"),), basis=Basis.KERNEL, words=words
        )
    if not asked:
        return _of_own_connection(job, key, items[0]) if items else _unknown_file_lock(job, key)
    own = next((item for item in asked if key[0] in item.holders), None)
    return _own_file_lock(job, key, own) if own and job.blocked[key].syscall == "flock" else None


def retried_locks(job: JobState, pid: int) -> list[KernelObject]:
    """Those that a polling thread of a process may be retrying: on files that it has open."""
    return locks_of_others(job, pid) or own_locks(job, pid)


def _inside(job: JobState, pid: int) -> ThreadKey:
    """The thread of a process that has the lock, which the kernel does not tell: the main one, or the one that it joins."""
    main = pid, pid
    joins = job.wait_state(main).kind is Wait.JOIN_THREAD
    return (job.awaited(main) if joins else None) or main


def _heirs(job: JobState, items: list[KernelObject]) -> tuple[int, ...]:
    """Processes that hold a file lock only because they inherited the open file at a fork, while the process that took the
    lock has closed the file or ended. They never end by themselves: their loop has no exit, or they accept connections.
    """
    if len(items) != 1 or not items[0].takers or not all(map(job.is_alive, items[0].holders)):
        return ()
    return items[0].holders if all(_stays(job, (pid, pid)) for pid in items[0].holders) else ()


def _stays(job: JobState, key: ThreadKey) -> bool:
    return job.tests(key) == () or any(item.listens for item in job.waits_on(key))


def _own_file_lock(job: JobState, key: ThreadKey, item: KernelObject) -> WaitEdge:
    """flock(2): two open file descriptions of one process exclude each other. Another thread may close the locked one, or a
    process that inherited it by fork may unlock it; else the thread waits for itself.
    """
    waiting = {pid for (pid, _), row in job.blocked.items() if item.id in row.waits_on}
    heirs = {handle.pid for handle in job.holders.get(item.id, ())} - waiting
    others = [(pid, pid) for pid in sorted(heirs) if job.may_act(pid) and not job.wait_state((pid, pid)).idle]
    targets = (*job.others_at_work(key), *others)
    path = item.path or "a file"
    evidence = (
        f"{path} is locked by pid {key[0]} itself, through a different open file than the one it waits on: /proc/locks, and "
        "`lock:` in /proc/PID/fdinfo"
    )
    return WaitEdge(
        targets or (key,),
        basis=Basis.KERNEL.when(not targets),
        holder_known=not targets,
        words=f"the lock on {path}",
        evidence=evidence,
    )


def _of_own_connection(job: JobState, key: ThreadKey, item: KernelObject) -> WaitEdge:
    """Another open file of the same process has the lock, such as that of another connection of SQLite, in another thread or in
    the waiting one itself.
    """
    others = tuple(job.others_at_work(key))
    path = (item.path or "a file").removesuffix(SHARED_MEMORY)
    evidence = f"{path} is open more than once in pid {key[0]}, and locked by it: /proc/locks"
    return WaitEdge(others or (key,), holder_known=not others, words=f"the lock on {path}", evidence=evidence)


def _unknown_file_lock(job: JobState, key: ThreadKey) -> WaitEdge:
    """For an unidentified file lock: between two attempts no system call names the file, and some locks are merely the
    existence of a file.
    """
    others = [pid for pid in job.processes if pid != key[0] and job.may_act(pid)]
    working = tuple((pid, pid) for pid in others if not job.wait_state((pid, pid)).idle)
    return WaitEdge((*job.others_at_work(key), *working, External("the holder of the lock")), words="a file lock")
