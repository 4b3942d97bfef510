"""Python threads of one process wait for each other.

What it looks like: two or more threads of one process stand in locks, conditions or queues, and no thread that runs is
left among them; often the main thread joins one of them.
What to do: take locks in one order; do not join a thread while holding a lock it needs.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "thread-deadlock"
NEEDS = frozenset({"stacks", "blocked", "locks"})

_LOCKS = frozenset({Wait.FUTEX, Wait.THREAD_LOCK})
_BETWEEN_THREADS = frozenset({*_LOCKS, Wait.CONDITION, Wait.THREAD_QUEUE, Wait.JOIN_THREAD})
_OF_POOLS = frozenset({Wait.FUTURE_RESULT, Wait.POOL_RESULT, Wait.JOIN_PROCESS})


def claim(knot: Knot) -> Claim | None:
    """A closed set of threads of one process."""
    if knot.ending not in (Ending.OPEN, Ending.CYCLE):
        return None
    waiting = [key for key in knot.closed.members if _waits_for_thread(knot, key)]
    pids = {key[0] for key in waiting}
    waits_for_itself = knot.ending is Ending.CYCLE and len(set(knot.roots)) == 1
    if len(waiting) < 2 or len(pids) != 1 or waits_for_itself:
        return None
    in_cycle = list(knot.roots) if knot.ending is Ending.CYCLE and {key[0] for key in knot.roots} == pids else []
    exact = bool(in_cycle) and all(knot.standing(key).kind is Wait.THREAD_LOCK for key in in_cycle)
    # Those in a lock hold something the others need; a thread that only joins or gets is a waiter.
    roots = in_cycle or [key for key in waiting if knot.standing(key).kind in _LOCKS] or waiting
    steps = _steps(knot, roots)
    return Claim(
        summary=f"threads of {knot.case.role(roots[0][0]).name} wait for each other: {several(steps)}",
        evidence=_evidence(knot, roots) or tuple(steps),
        advice=("Take locks in the same order everywhere; hold none while joining or getting.",),
        certainty=Certainty.PROVED if exact else Certainty.LIKELY,
        threads=tuple(map(knot.case.suspect, roots)),
    )


def _steps(knot: Knot, keys: list[ThreadKey]) -> list[str]:
    """What each waits for; those that stand in the same calls and wait alike together."""
    alike: dict[tuple[object, ...], list[ThreadKey]] = {}
    for key in keys:
        stack = knot.case.stacks.get(key)
        calls = tuple((frame.function, frame.file, frame.line) for frame in stack.frames) if stack else key
        alike.setdefault((knot.waits_for(key), knot.at(key), calls), []).append(key)
    return [
        f"{several([knot.case.thread_name(key) for key in found])} wait{'s' if len(found) == 1 else ''} for {words}{at}"
        for (words, at, _), found in alike.items()
    ]


def _waits_for_thread(knot: Knot, key: ThreadKey) -> bool:
    """In what only threads wait in; or for a result or the end of a pool that a thread of its own process has to hand over."""
    kind, targets = knot.standing(key).kind, knot.targets(key)
    handed_over = kind in _OF_POOLS and all(isinstance(row, tuple) and row[0] == key[0] for row in targets)
    return kind in _BETWEEN_THREADS or handed_over


def _evidence(knot: Knot, keys: list[ThreadKey]) -> tuple[str, ...]:
    needs = [knot.graph.node(key).need for key in keys]
    return tuple(need.evidence for need in needs if need and need.evidence)
