"""Waits inside of a library of which nothing is known but that it runs code of the user's: see `shapes`."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.frames import is_user
from mpmon.diagnosis.graph import Need
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

_ASKS = frozenset({
    Wait.CONDITION, Wait.FUTEX, Wait.PIPE_READ, Wait.QUEUE_GET, Wait.SLEEP, Wait.THREAD_QUEUE,
})  # fmt: skip
"""How a client waits, as far as frames and kernel tell. An event loop serves; a socket may lead to anybody."""

MOST_SHARE = 0.05
"""Of a CPU: who polls uses less, who works more."""


def asked_tasks(case: Case, key: ThreadKey) -> Need | None:
    """The tasks of the library that a thread stands in, where all of them stand; `None` where one moves, or there is none."""
    packages = case.shape(key).asks
    past = case.past(key)
    if not packages or past is None or not _asks(case, key) or share(past.looks) > MOST_SHARE:
        return None
    tasks = [other for other in case.tasks if packages & case.shape(other).runs]
    others = [other for other in tasks if other != key]
    if key in tasks and not others and case.motion(key) is not Motion.MOVING and case.is_on_one_machine:
        (name, *_) = sorted(packages & case.shape(key).runs)
        evidence = (
            f"{name} has called {case.place(key)} of pid {key[0]}, which waits in {name}, and no other code of the job"
        )
        words = f"a task of {name} inside of a task, and no other one runs"
        return Need((key,), every=True, polled=True, words=words, evidence=evidence)
    if not others or any(case.motion(other) in _MOVES for other in others):
        return None
    (name, *_) = sorted(packages & case.shape(others[0]).runs)
    names = several([case.role(pid).name for pid in dict.fromkeys(pid for pid, _ in others)])
    evidence = _evidence(case, others, name)
    return Need(tuple(others), polled=True, words=f"a task of {name} in {names}", evidence=evidence)


def _asks(case: Case, key: ThreadKey) -> bool:
    """It waits as a client does; or it is the main thread of a library's own program, whose requests come from such clients."""
    kind = case.standing(key).kind
    serves = (
        kind is Wait.POLL and key[0] == key[1] and not any(is_user(frame.file) for frame in case.stacks[key].frames)
    )
    return kind in _ASKS or serves


_MOVES = frozenset({Motion.MOVING, Motion.SPINNING, Motion.UNSEEN})


def _evidence(case: Case, tasks: list[ThreadKey], name: str) -> str:
    places = (f"{case.place(task)} of pid {task[0]}" for task in tasks[:4])
    return f"{name} runs code of the job at {', '.join(places)}, and none of it makes progress"
