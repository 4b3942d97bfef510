"""Waits in C and C++ for native threads of the same process, by the frames of both sides.

A library's frames show what it waits for: the end of one thread, the other threads of its team, the thread that computes
gradients. Its threads are recognised by their start function. If a frame was found by scanning the stack, the edge is
inferred; if the other side was not read, there is no edge, since its activity is unknown.
"""

from __future__ import annotations

from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.native_waits import Sort
from mpmon.diagnosis.stacks.natives import NativeFact
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def native_threads(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The native threads that a thread waits for; `None` if frames do not tell which."""
    if joined := job.joined_thread(key):
        return _end(job, key, joined)
    fact = job.native_facts.get(key)
    return _team(job, key, fact) if fact and fact.wait and fact.wait.sort is Sort.TEAM else None


def _end(job: JobState, key: ThreadKey, joined: ThreadKey) -> WaitEdge | None:
    if not _is_known(job, joined):
        return None
    words = f"the end of the native {job.thread_words(joined)}"
    evidence = f"the futex of thread {key[1]} holds the id of thread {joined[1]}, as in pthread_join"
    return WaitEdge((joined,), every=True, basis=Basis.KERNEL, of_end=True, words=words, evidence=evidence)


def _team(job: JobState, key: ThreadKey, fact: NativeFact) -> WaitEdge | None:
    """The library's threads that have reached neither the team's barrier nor a wait for work."""
    library = fact.wait.library if fact.wait else ""
    facts = [(other, job.native_facts.get(other)) for other in job.all_threads(key[0]) if other != key]
    team = [
        (other, found.helps) for other, found in facts
        if found and found.helps and found.helps.library == library and not found.is_at_rest
    ]  # fmt: skip
    if not team:
        return None
    # If several threads wait for teams of one library, it is unknown which team belongs to which.
    masters = [
        other for other, found in facts
        if found and not found.helps and found.wait and found.wait.sort is Sort.TEAM and found.wait.library == library
    ]  # fmt: skip
    targets = tuple(other for other, _ in team)
    names = several([job.thread_words(other) for other in targets])
    return WaitEdge(
        targets, every=len(targets) == 1,
        basis=Basis.FRAMES.when(fact.certain and not masters and all(row.certain for _, row in team)),
        words=f"{names} of {library}",
        evidence=f"C frames: all threads of {library} in pid {key[0]} wait except {names}",
    )  # fmt: skip


def mutex_owner(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The holder of a pthread mutex, by the mutex's owner word; `None` if it has none."""
    owner = next((item.owner_tid for item in job.waits_on(key) if item.owner_tid), None)
    if owner is None:
        return None
    fact = job.native_facts.get(key)
    words = fact.lock_words if fact else "a native mutex"
    if job.thread_history((key[0], owner)):
        evidence = f"its owner is thread {owner}"
        return WaitEdge(((key[0], owner),), every=True, basis=Basis.MEMORY, words=words, evidence=evidence)
    why = f"the native mutex is owned by thread {owner}, which does not exist in this process: it was locked before the fork"
    reason = Absent.LOCKED_AT_FORK if job.is_forked(key[0]) else Absent.HOLDER_ENDED
    return WaitEdge((NoReleaser(why, (key[0],), reason),), basis=Basis.MEMORY, words=words)


def native_thread(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The targets of a native thread in a futex: threads named by its frames or the mutex, else any Python thread that does
    not itself wait for native threads. `None` if frames were not read, or other native threads are at work.
    """
    fact = job.native_facts.get(key)
    if fact is None or not fact.certain or job.natives_at_work(key[0]):
        return None
    if edge := native_threads(job, key) or mutex_owner(job, key):
        return edge
    others = tuple(other for other in job.working_threads(key[0]) if not _waits_for_natives(job, other))
    words = fact.wait.waits_for if fact.wait else "something in native code"
    if others:
        return WaitEdge(others, words=words)
    why = f"no other thread of pid {key[0]} is left that could end the wait of its native {job.thread_words(key)}"
    return WaitEdge((NoReleaser(why, (key[0],), Absent.NATIVE),), words=words)


def left_loop(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """For the child of a fork whose only thread, in a call of a library such as gRPC, waits for nothing but an eventfd(2):
    the native threads that would signal it exist only in the parent, so nobody handles the request.
    """
    process, objects = job.processes[key[0]], job.waits_on(key)
    if process.threads != 1 or not job.is_forked(key[0]) or job.motion(key) is Motion.PROGRESSING:
        return None
    if not objects or any(item.kind != "eventfd" for item in objects) or not job.may_be_native(key):
        return None
    natives = [other for other in job.all_threads(process.ppid) if other not in job.stacks]
    if not natives or not job.shape(key).asks:
        return None
    why = f"pid {key[0]} has a single thread, and its parent's native threads, which would wake it, were not copied by the fork"
    return WaitEdge((NoReleaser(why, (key[0],), Absent.LEFT_IN_PARENT),), words=job.wait_state(key).words, evidence=why)


def waits_for(job: JobState, key: ThreadKey, other: ThreadKey) -> bool:
    """`key` stands still until exactly `other` acts in native code, so it cannot help `other`."""
    edge = _told(job, key)
    return edge is not None and edge.targets == (other,) and job.motion(key) is Motion.NOT_SCHEDULED


def _waits_for_natives(job: JobState, key: ThreadKey) -> bool:
    """The same for any native thread."""
    return _told(job, key) is not None and job.motion(key) is Motion.NOT_SCHEDULED


def _told(job: JobState, key: ThreadKey) -> WaitEdge | None:
    edge = native_threads(job, key) or mutex_owner(job, key)
    return edge if edge and edge.exact else None


def _is_known(job: JobState, key: ThreadKey) -> bool:
    """The thread's Python or C frames were read."""
    return key in job.stacks or key in job.native_facts


def name_server(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The name server, if C frames show that the resolver waits for its answer."""
    fact = job.native_facts.get(key)
    if fact is None or not fact.is_surely(Sort.NAME_SERVER) or fact.wait is None:
        return None
    return WaitEdge((External("a name server"),), words=fact.wait.waits_for)
