"""Waits of polling threads: the condition their loop tests reveals what they wait for, see `waits.polled`."""

from __future__ import annotations

from collections.abc import Callable

from mpmon.diagnosis.edges.queue_ledgers import NO_USERS
from mpmon.diagnosis.edges.servants import busy_threads, executor_threads, pool_result, pool_workers
from mpmon.diagnosis.graph import Absent, NoReleaser, WaitEdge
from mpmon.diagnosis.libraries.rows import PollRow
from mpmon.diagnosis.progress.ticking import only_beats
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.suspects import stands_at
from mpmon.diagnosis.thresholds import NEXT_ROUND_S


def polled_work(job: JobState, key: ThreadKey, row: PollRow) -> WaitEdge | None:
    """The candidates for a polled condition: children or threads that may end, tasks that may complete, threads that may set
    an event. `None` if the loop tests something else, or there is no candidate;
    without one, a result of a pool that is here was lost.
    """
    targets = _WHOSE.get(row.kind, _whose_result)(job, key)
    others = tuple(target for target in dict.fromkeys(targets) if target != key and not only_beats(job, target))
    lost = _untold(job, key[0]) if row.kind is Wait.JOIN_PROCESS else ()
    if not others and not lost:
        return pool_result(job, key) if row.kind is Wait.POOL_RESULT and _has_pool(job, key[0]) else None
    of_file = row.kind is Wait.FILE_MARK
    return WaitEdge((*others, *lost), of_data=of_file, guessed=of_file, words=row.words, evidence=_evidence(job, key))


def _has_pool(job: JobState, pid: int) -> bool:
    """The process has workers of a pool; those of joblib with Dask or Spark are no children of it."""
    return any(job.role(child).kind in POOL_WORKERS for child in job.clients.get(pid, ()))


def _untold(job: JobState, pid: int) -> tuple[NoReleaser, ...]:
    """Children that multiprocessing takes for alive although they have ended: another wait of the process took their exit status,
    and `is_alive()` never learns of it (popen_fork.py). `Popen.poll()` notices, and a fork server tells.
    """
    if any(job.role(child).kind == "forkserver" for child in job.children.get(pid, ())):
        return ()
    rows = [row for row in job.snapshot.remembered if row.pid == pid and row.returncode is None and row.name]
    lost = [row for row in rows if row.child not in job.processes and not _just_ended(job, row.child)]
    return tuple(
        NoReleaser(
            f"{row.name} (pid {row.child}) has ended, but another wait of pid {pid}, such as os.waitpid(-1, …) in a handler of "
            "SIGCHLD, has taken its exit status, so is_alive() stays true",
            (pid,),
            Absent.STATUS_TAKEN,
        )
        for row in lost
    )


def _just_ended(job: JobState, pid: int) -> bool:
    ended_at = job.ended_at(pid)
    return ended_at is not None and job.now - ended_at < NEXT_ROUND_S


def _whose_end(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    children = [(pid, pid) for pid in job.helpmates(key[0])]
    return children or [other for other in job.others_at_work(key) if other[1] != other[0]]


def _whose_sign(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    """Other threads and children; an ancestor could set the event only by a signal, for which there would be a handler."""
    return [*job.others_at_work(key), *((pid, pid) for pid in job.helpmates(key[0]))]


def _whose_item(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    """Which queue it is is not known: other threads, and all processes that share a pipe with this one."""
    pipes = (name for name in job.held_by.get(key[0], ()) if name.startswith("pipe:"))
    pids = {handle.pid for name in pipes for handle in job.holders.get(name, ())} - {key[0]}
    others = (pid for pid in sorted(pids) if job.is_alive(pid) and job.role(pid).kind not in NO_USERS)
    return [*job.others_at_work(key), *((pid, pid) for pid in others)]


def _whose_result(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    return [*busy_threads(job, pool_workers(job, key[0])), *executor_threads(job, key)]


def _whose_file(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    commands = (pid for pid in job.helpmates(key[0]) if pid in job.foreign)
    return [*job.others_at_work(key), *((pid, pid) for pid in (*job.programs_beside(key[0]), *commands))]


_WHOSE: dict[Wait, Callable[[JobState, ThreadKey], list[ThreadKey]]] = {
    Wait.JOIN_PROCESS: _whose_end, Wait.CONDITION: _whose_sign, Wait.QUEUE_GET: _whose_item,
    Wait.FILE_MARK: _whose_file,
}  # fmt: skip


def _evidence(job: JobState, key: ThreadKey) -> str:
    tests = job.stacks[key].tests or ()
    asked = ", ".join(name if name.startswith(".") else f"{name}()" for name in tests)
    return f"pid {key[0]} polls at {stands_at(job, key)}: its loop exits only on what {asked} returns"
