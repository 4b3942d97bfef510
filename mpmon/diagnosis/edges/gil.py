"""Threads that wait for the GIL, and the one that has it."""

from __future__ import annotations

from mpmon.diagnosis.graph import Basis, WaitEdge
from mpmon.diagnosis.progress.motion import Motion, same_since
from mpmon.diagnosis.stacks.native_waits import Sort
from mpmon.diagnosis.state.history import Sample, ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import GIL_INTERVAL_S


def gil_owner(job: JobState, key: ThreadKey) -> ThreadKey | None:
    """The thread that holds the GIL while this thread waits for it."""
    owner = job.gil_owner(key)
    return owner if owner and _asks_for_gil(job, key) else None


def starves_others(job: JobState, key: ThreadKey) -> bool:
    """The thread holds the GIL in every sample, while other threads of its process wait for it in vain."""
    stack = job.stacks.get(key)
    if stack is None or not stack.owns_gil:
        return False
    return any(_asks_for_gil(job, other) for other in job.threads(key[0]) if other != key)


def starver(job: JobState, key: ThreadKey) -> ThreadKey | None:
    """Another thread of its process that waits for something while it holds the GIL: whatever comes to this thread, it cannot
    act on it.
    """
    owner = job.gil_owner(key)
    waits = owner is not None and job.motion(owner) is Motion.NOT_SCHEDULED
    return owner if owner and waits and starves_others(job, owner) else None


def _asks_for_gil(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for the GIL: since it came to its lines it was found in a timed wait of milliseconds, as `take_gil`
    of CPython's ceval_gil.c makes, or its C frames say so. The kernel's last row may fall between two such waits.
    """
    fact = job.native_facts.get(key)
    asks = _has_asked_for_gil(job, key) or (fact is not None and fact.is_surely(Sort.GIL))
    return asks and job.motion(key) is not Motion.PROGRESSING


def _has_asked_for_gil(job: JobState, key: ThreadKey) -> bool:
    past = job.thread_history(key)
    if past is None or not past.samples:
        return False
    asked_at = [sample.at for sample in past.samples if _renews_soon(sample, sample.at)]
    return _renews_soon(past.samples[-1], job.now) or (bool(asked_at) and asked_at[-1] >= same_since(past))


def _renews_soon(sample: Sample, now: float) -> bool:
    """It is in a futex wait that ends within milliseconds."""
    row = sample.blocked
    return bool(row and row.syscall == "futex" and row.wakes_at and row.wakes_at - now < GIL_INTERVAL_S)


def gil_edge(job: JobState, owner: ThreadKey) -> WaitEdge:
    """The owner of the GIL must release it."""
    name, reader = job.thread_words(owner), job.stacks[owner].reader
    evidence = f"{reader}: {name} of pid {owner[0]} owns the GIL"
    words = f"the GIL, which {name} holds"
    return WaitEdge((owner,), every=True, basis=Basis.MEMORY, holder_known=True, words=words, evidence=evidence)


def kept_by_gil(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The thread holds the GIL while it waits for a file lock that its own process holds through another open file: the
    thread that took the lock needs the GIL to release it.
    """
    if job.motion(key) is not Motion.NOT_SCHEDULED:
        return None
    if not starves_others(job, key) or {pid for item in job.waits_on(key) for pid in item.holders} != {key[0]}:
        return None
    starved = tuple(other for other in job.threads(key[0]) if other != key and _asks_for_gil(job, other))
    evidence = f"pid {key[0]} itself holds the lock that its {job.thread_words(key)} waits for: /proc/locks"
    return WaitEdge(starved, words="a file lock of its own process", evidence=evidence)
