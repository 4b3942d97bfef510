"""Python threads of one process wait for each other.

What it looks like: two or more threads of one process wait for locks, conditions or queues, and none of them can run; often
the main thread is joining one of them.
What to do: take locks in the same order everywhere; do not join a thread while holding a lock it needs.
"""

from __future__ import annotations

from mpmon.diagnosis.advice.circles import for_circle
from mpmon.diagnosis.criteria.crossed_waits import forsaken
from mpmon.diagnosis.criteria.parts import after_script, in_own_pool
from mpmon.diagnosis.criteria.signs import has_sign
from mpmon.diagnosis.edges.gil import gil_owner
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.humanize import several, verb
from mpmon.diagnosis.stacks.waits import LOCKS_OF_THREADS, MAY_BE_ASKED, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.diagnosis.suspects import suspect

CAUSE = "thread-deadlock"
NEEDS = frozenset({"stacks", "blocked", "locks"})

_BETWEEN_THREADS = LOCKS_OF_THREADS | MAY_BE_ASKED | {Wait.JOIN_THREAD}

_HANDED_OVER = frozenset({
    Wait.FUTURE_RESULT, Wait.POOL_RESULT, Wait.LOADER_BATCH, Wait.JOIN_PROCESS, Wait.FILE_LOCK, Wait.PIPE_READ,
    Wait.SLEEP,
})  # fmt: skip
"""Waits that a thread of the same process may have to end."""


def match(stuck: StuckSet) -> Match | None:
    """A closed set of threads of one process."""
    if not stuck.is_mutual or has_sign(stuck) or forsaken(stuck) or in_own_pool(stuck) or after_script(stuck):
        return None
    if any(gil_owner(stuck.job, key) for key in stuck.closed.members):
        # Whoever keeps the GIL keeps them from moving, whatever they wait for.
        return None
    waiting = [key for key in stuck.closed.members if _waits_for_thread(stuck, key)]
    pids = {key[0] for key in waiting}
    waits_for_itself = stuck.ending is Ending.CYCLE and len(set(stuck.at_end)) == 1
    if len(waiting) < 2 or len(pids) != 1 or waits_for_itself:
        return None
    in_cycle = list(stuck.at_end) if stuck.ending is Ending.CYCLE and {key[0] for key in stuck.at_end} == pids else []
    exact = bool(in_cycle) and all(stuck.wait_state(key).kind is Wait.THREAD_LOCK for key in in_cycle)
    # Threads waiting for a lock hold something the others need; a thread that only joins or gets is just a waiter.
    locked = [key for key in waiting if stuck.wait_state(key).kind in LOCKS_OF_THREADS]
    root_blockers = in_cycle or locked or [key for key in waiting if key in stuck.closed.root_blockers] or waiting
    steps = _steps(stuck, root_blockers)
    return Match(
        summary=f"threads of {stuck.job.name(root_blockers[0][0])} wait for each other: {several(steps)}",
        evidence=_evidence(stuck, root_blockers) or tuple(steps),
        advice=for_circle(stuck, root_blockers),
        certainty=Certainty.PROVED if exact else Certainty.LIKELY,
        threads=tuple(suspect(stuck.job, key) for key in root_blockers),
    )


def _steps(stuck: StuckSet, keys: list[ThreadKey]) -> list[str]:
    """What each thread waits for; threads with the same stack and the same wait are reported together."""
    alike: dict[tuple[object, ...], list[ThreadKey]] = {}
    for key in keys:
        stack = stuck.job.stacks.get(key)
        calls = tuple((frame.function, frame.file, frame.line) for frame in stack.frames) if stack else key
        alike.setdefault((stuck.waits_for(key), stuck.at(key), calls), []).append(key)
    return [
        f"{several([stuck.job.thread_name(key) for key in found])} {verb(len(found), 'wait')} for {words}{at}"
        for (words, at, _), found in alike.items()
    ]


def _waits_for_thread(stuck: StuckSet, key: ThreadKey) -> bool:
    """Its kind of wait exists only between threads, or only threads of its own process could end it."""
    kind, targets = stuck.wait_state(key).kind, stuck.targets(key)
    handed_over = kind in _HANDED_OVER and all(isinstance(row, tuple) and row[0] == key[0] for row in targets)
    return kind in _BETWEEN_THREADS or handed_over


def _evidence(stuck: StuckSet, keys: list[ThreadKey]) -> tuple[str, ...]:
    needs = [stuck.graph.node(key).edge for key in keys]
    return tuple(edge.evidence for edge in needs if edge and edge.evidence)
