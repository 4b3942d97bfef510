"""Waits inside a library of which only this is known: it runs code of the user's, see `shapes`."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.frames import is_user
from mpmon.diagnosis.graph import Absent, Nobody, WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.thresholds import IDLE_S, LEAST_SIGNS, POLLS_SHARE
from mpmon.diagnosis.waits import Wait
from mpmon.model import Stack

_ASKS = frozenset({
    Wait.CONDITION, Wait.FUTEX, Wait.PIPE_READ, Wait.QUEUE_GET, Wait.SLEEP, Wait.THREAD_QUEUE,
})  # fmt: skip
"""A client's kind of wait, by frames and kernel. An event loop serves; a socket may lead anywhere."""


def asked_tasks(case: Case, key: ThreadKey) -> WaitEdge | None:
    """The tasks of the library that a thread is inside, if all of them stand still; `None` if one moves, or there is
    none.
    """
    packages = case.shape(key).asks
    past = case.past(key)
    if not packages or past is None or not _asks(case, key) or share(past.looks) > POLLS_SHARE:
        return None
    tasks = [other for other in case.tasks if packages & case.shape(other).runs]
    others = [other for other in tasks if other != key]
    if key in tasks and not others and case.motion(key) is not Motion.PROGRESSING and case.is_on_one_machine:
        (name, *_) = sorted(packages & case.shape(key).runs)
        evidence = (
            f"{name} has called no code of the job but {case.place(key)} of pid {key[0]}, which itself waits in {name}"
        )
        words = f"a task of {name} from inside a task, and no other task runs"
        return WaitEdge((key,), every=True, polled=True, words=words, evidence=evidence)
    if not others:
        return _never_begun(case, key, packages)
    if any(case.motion(other) in _MOVES for other in others):
        return None
    (name, *_) = sorted(packages & case.shape(others[0]).runs)
    names = several([case.role(pid).name for pid in dict.fromkeys(pid for pid, _ in others)])
    evidence = _evidence(case, others, name)
    return WaitEdge(tuple(others), polled=True, words=f"a task of {name} in {names}", evidence=evidence)


def _never_begun(case: Case, key: ThreadKey, packages: frozenset[str]) -> WaitEdge | None:
    """A task that no worker of the library has begun: it lacks something that is never released, or its result was
    lost.
    """
    others = (other for other in case.stacks if other != key and case.role(other[0]).kind not in HELPERS)
    workers = {other: found for other in others if (found := packages & _served(case, other))}
    idle = [other for other in workers if case.standing(other).idle and case.is_alive(other[0])]
    asks = any(is_user(frame.file) for frame in case.stacks[key].frames)
    if any(_is_beside(case, other, idle) and not case.standing(other).idle for other in workers):
        # A task that is a C function, or a library's, has no user frame.
        return None
    if not asks or not idle or case.tasks or not case.is_on_one_machine:
        # The main thread of a library's own program waits for requests like its workers.
        return None
    if any(_was_busy(case, pid) for pid in case.processes) or not all(_was_idle(case, other) for other in idle):
        return None
    (name, *_) = sorted(workers[idle[0]])
    names = several([case.role(pid).name for pid in dict.fromkeys(pid for pid, _ in idle)])
    why = f"none of the workers of {name} has a task: {names}"
    nobody = Nobody(why, (key[0],), Absent.NOT_BEGUN)
    return WaitEdge((nobody,), polled=True, idle_s=IDLE_S, words=f"a task of {name}")


def _is_beside(case: Case, key: ThreadKey, idle: list[ThreadKey]) -> bool:
    """It does what the idle ones do, by its outermost calls: it is one of them."""
    return any(_begin_alike(case.stacks[key], case.stacks[other]) for other in idle)


def _begin_alike(one: Stack, other: Stack) -> bool:
    count = min(_OUTERMOST, len(one.frames), len(other.frames))
    outermost = ([(row.function, row.file) for row in stack.frames[-count:]] for stack in (one, other))
    return count > 0 and next(outermost) == next(outermost)


_OUTERMOST = 4
"""Calls that show a thread's purpose: two of `threading`, and two of the library."""


def _served(case: Case, key: ThreadKey) -> frozenset[str]:
    """The packages that a thread serves; for a main thread also those that its parent's main thread serves, whose
    worker it is.
    """
    pid, tid = key
    parent = case.processes[pid].ppid
    above = (parent, parent) if pid == tid and not case.shape(key).asks else key
    return case.shape(key).serves | case.shape(above).serves


def _was_busy(case: Case, pid: int) -> bool:
    """It used a CPU lately, in more rounds than a garbage collection takes."""
    life = case.history.life(case.processes[pid])
    return life is not None and len(life.busy_at) == LEAST_SIGNS and life.busy_at[0] > case.now - IDLE_S


def _was_idle(case: Case, key: ThreadKey) -> bool:
    """Every recent sample found it waiting for work, and there were some."""
    past = case.past(key)
    lately = [look for look in past.looks if look.at > case.now - IDLE_S] if past else []
    return bool(past) and past.first_at <= case.now - IDLE_S and all(look.standing.idle for look in lately)


def _asks(case: Case, key: ThreadKey) -> bool:
    """It waits like a client; or it is the main thread of a library's own program, whose requests come from such
    clients.
    """
    kind = case.standing(key).kind
    serves = (
        kind is Wait.POLL and key[0] == key[1] and not any(is_user(frame.file) for frame in case.stacks[key].frames)
    )
    return kind in _ASKS or serves


_MOVES = frozenset({Motion.PROGRESSING, Motion.BUSY_LOOP, Motion.UNKNOWN})


def _evidence(case: Case, tasks: list[ThreadKey], name: str) -> str:
    places = (f"{case.place(task)} of pid {task[0]}" for task in tasks[:4])
    return f"{name} runs code of the job at {', '.join(places)}, and none of it makes progress"
