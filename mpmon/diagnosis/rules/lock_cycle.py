"""Processes wait for each other in a cycle.

What it looks like: each holds what the next one waits for: locks taken in opposite order, or both ends of pipes and queues.
What to do: take locks in one order everywhere; use one lock; never block on both directions of a pipe.
"""

from __future__ import annotations

from mpmon.diagnosis.collectives import Differs, split
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.links import stalls
from mpmon.diagnosis.managers import client_calls
from mpmon.diagnosis.mates import crashed_mates
from mpmon.diagnosis.parts import kept_until_end
from mpmon.diagnosis.responsibility import exchanging, in_given_stream, waits_for_room
from mpmon.diagnosis.undone import own_tasks
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "lock-cycle"
NEEDS = frozenset({"blocked", "handles", "semaphores", "locks"})

_LOCKS = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.THREAD_LOCK})
_HELD = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.THREAD_LOCK, Wait.PIPE_READ, Wait.PIPE_WRITE, Wait.QUEUE_GET, Wait.QUEUE_PUT,
                   Wait.PROCESS_EVENT, Wait.SOCKET, Wait.REMOTE_CALL})  # fmt: skip


def claim(knot: Knot) -> Claim | None:
    """A cycle of several processes."""
    if found := _through_manager(knot) or _holder_waits_for_waiter(knot):
        return found
    pids = list(dict.fromkeys(key[0] for key in knot.roots))
    if knot.ending is not Ending.CYCLE or len(pids) < 2:
        return None
    if any(_in_line(knot, key, holder) for key in knot.roots for holder in knot.roots):
        return None
    if crashed_mates(knot) or own_tasks(knot) or kept_until_end(knot) or stalls(knot):
        # Who answers whom is not all there is to it.
        return None
    has_lock = any(need.held for key in knot.roots if (need := knot.graph.node(key).need))
    if not has_lock and not all(_holds(knot, key) for key in knot.roots):
        return None
    steps = [f"{knot.case.role(key[0]).name} waits for {knot.waits_for(key)}{knot.at(key)}" for key in knot.roots]
    return Claim(
        summary=f"{several([knot.case.role(pid).name for pid in pids])} wait for each other: {'; '.join(steps)}",
        evidence=tuple(need.evidence for key in knot.roots if (need := knot.graph.node(key).need) and need.evidence),
        advice=(
            "Take the locks in the same order everywhere, or use one lock."
            if all(knot.standing(key).kind in _LOCKS for key in knot.roots)
            else "Let one side read while the other writes: close what is not needed, or use threads or communicate().",
        ),
        certainty=Certainty.PROVED,
    )


def _holds(knot: Knot, key: ThreadKey) -> bool:
    """It waits in what another one has the other end of; for the end of a program that reads the input it was given; or in a
    collective, for one that waits for its ranks by way of others.
    """
    kind = knot.standing(key).kind
    if kind is Wait.COLLECTIVE:
        found = split(knot)
        return found is not None and found.how is Differs.STRANGER
    if kind is Wait.JOIN_PROCESS:
        return all(isinstance(target, tuple) and _reads_input(knot, target) for target in knot.targets(key))
    return kind in _HELD


def _reads_input(knot: Knot, key: ThreadKey) -> bool:
    return in_given_stream(knot.case, key) and not waits_for_room(knot.case, key)


def _in_line(knot: Knot, waiter: ThreadKey, holder: ThreadKey) -> bool:
    """Consumers of one queue: one reads, the other stands in line for the queue's own lock. That each has the pipe open does
    not make it one who writes.
    """
    need = knot.graph.node(waiter).need
    getting = all(knot.standing(key).kind is Wait.QUEUE_GET for key in (waiter, holder))
    return getting and need is not None and need.held and holder in need.targets and waiter in knot.targets(holder)


def _through_manager(knot: Knot) -> Claim | None:
    """Clients of a manager whose objects each wait for what another client does."""
    clients, calls = exchanging(knot), client_calls(knot)
    if not clients:
        return None
    names = several([knot.case.role(key[0]).name for key in clients])
    steps = [f"{knot.case.role(key[0]).name} in {calls[key] or 'a call'}(){knot.at(key)}" for key in clients]
    return Claim(
        summary=f"{names} wait for each other through a manager: {'; '.join(steps)}",
        evidence=knot.edge_evidence(),
        advice=("Take the manager's locks in the same order everywhere, or give each wait a timeout.",),
        certainty=Certainty.LIKELY,
    )


def _holder_waits_for_waiter(knot: Knot) -> Claim | None:
    """Who has a lock waits, among others, for one that cannot come without that very lock: a barrier inside of the lock."""
    kept = _kept_in_collective(knot) or _kept_from_waiter(knot)
    if kept is None:
        return None
    holder, others = kept
    name, needing = knot.case.role(holder[0]).name, several([knot.case.role(key[0]).name for key in others])
    return Claim(
        summary=f"{name} holds a lock that {needing} cannot go on without{knot.at(others[0])}, and waits for "
        f"{knot.waits_for(holder)}{knot.at(holder)}, for which {needing} has to come",
        evidence=knot.edge_evidence(),
        advice=("Give the lock back before waiting for the others.",),
        certainty=Certainty.LIKELY,
    )


def _kept_in_collective(knot: Knot) -> tuple[ThreadKey, tuple[ThreadKey, ...]] | None:
    """A rank in a collective that has a lock, and those who are not in it because they need that."""
    found = split(knot)
    return (found.odd[0], found.others) if found and found.how is Differs.KEEPS_LOCK else None


def _kept_from_waiter(knot: Knot) -> tuple[ThreadKey, tuple[ThreadKey, ...]] | None:
    if knot.ending is not Ending.OPEN:
        return None
    for waiter in knot.closed.members:
        need = knot.graph.node(waiter).need
        holder = need.targets[0] if need and need.held and len(need.targets) == 1 else None
        if not isinstance(holder, tuple) or holder[0] == waiter[0] or waiter not in knot.targets(holder):
            continue
        if waits_for_room(knot.case, holder):
            # It has the lock of those who write: who reads is responsible, not who is at writing.
            continue
        if not _in_line(knot, waiter, holder):
            return holder, (waiter,)
    return None
