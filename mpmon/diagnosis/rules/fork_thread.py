"""The child of fork() waits for a thread or executor that exists in the parent only.

What it looks like: a forked process waits on a queue, an event or a future; no other Python thread is there to answer.
Why: fork copies the queue, the executor and the event, but not the threads that serve them.
What to do: create executors and helper threads in the child (`worker_init_fn`), or start with `spawn`.
"""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.needs.servants import is_deliverer
from mpmon.diagnosis.waits import Context, Wait

CAUSE = "fork-thread"
NEEDS = frozenset({"stacks"})

_FROM_THREADS = frozenset({Wait.THREAD_QUEUE, Wait.CONDITION, Wait.FUTURE_RESULT, Wait.JOIN_THREAD})

_RESULTS = frozenset({Wait.FUTURE_RESULT, Wait.POOL_RESULT})
_TASKS = frozenset({Context.POOL_WORKER, Context.EXECUTOR_THREAD})


def claim(knot: Knot) -> Claim | None:
    """A forked child waits for a thread, and has none."""
    if knot.ending is not Ending.NOBODY or knot.root is None or not knot.case.is_forked(knot.root[0]):
        return None
    if knot.standing().kind not in _FROM_THREADS | _RESULTS or len(knot.case.threads(knot.root[0])) > 1:
        return None
    hands_over = _left_behind(knot)
    parent = knot.case.role(knot.root[0]).parent
    others = [key for key in knot.case.threads(parent or 0) if key[0] != key[1]]
    serve_others = all(knot.case.standing(key).kind is Wait.SERVICE for key in others)
    if hands_over is None and (serve_others or knot.standing().kind not in _FROM_THREADS):
        return None
    return Claim(
        summary=f"{knot.role()}, the child of a fork, waits for {knot.standing().words}{knot.at()}, "
        "but the thread that would answer exists in its parent only",
        evidence=(f"pid {knot.root[0]} has one Python thread", *_words(knot, hands_over)),
        advice=(
            "Create threads and executors in the child, after the fork.",
            'Or start it with "spawn" or "forkserver".',
        ),
        certainty=Certainty.LIKELY,
    )


def _left_behind(knot: Knot) -> ThreadKey | None:
    """For a result of a pool or an executor: the thread of the program it was forked from, or of that one's, through which all
    results go. One that has workers of its own has a pool of its own, and a task of a pool waits for its own pool.
    """
    case, pid = knot.case, (knot.root or knot.goal)[0]
    own = any(case.role(child).kind == "pool worker" for child in case.clients.get(pid, ()))
    if knot.standing().kind not in _RESULTS or knot.context() in _TASKS or own:
        return None
    found = (key for parent in _forked_from(case, pid) for key in case.threads(parent) if is_deliverer(case, key))
    return next(found, None)


def _forked_from(case: Case, pid: int) -> list[int]:
    """Its parent, and so on, as long as each is a fork of the next."""
    above: list[int] = []
    while case.is_forked(pid):
        pid = case.processes[pid].ppid
        above.append(pid)
    return above


def _words(knot: Knot, key: ThreadKey | None) -> tuple[str, ...]:
    if key is None:
        return ()
    name = knot.case.thread_name(key)
    return (f"the pool's results go through thread {name} of pid {key[0]}, from which it was forked",)
