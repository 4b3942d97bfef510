"""Processes wait for each other in a cycle.

What it looks like: each holds what the next one waits for: locks taken in opposite order, or both ends of pipes and queues.
What to do: take locks in the same order everywhere; use a single lock; never block on both directions of a pipe.
"""

from __future__ import annotations

from mpmon.diagnosis.advice.circles import for_circle
from mpmon.diagnosis.criteria.signs import has_sign
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending, Target
from mpmon.diagnosis.loops import CONNECTIONS
from mpmon.diagnosis.responsibility.members import waits_for_room
from mpmon.diagnosis.responsibility.passed_round import kept_permits
from mpmon.diagnosis.responsibility.servers import exchanging
from mpmon.diagnosis.responsibility.streams import in_given_stream
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, EXCHANGES, LOCKS, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives import Differs, split
from mpmon.diagnosis.stuck.manager_calls import client_calls
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "lock-cycle"
NEEDS = frozenset({"blocked", "handles", "semaphores", "locks"})

MOST_STEPS = 2
"""Circles of more processes are told in the sentence without what each of them waits for."""

_LOCK = "a lock"

_HELD = LOCKS | EXCHANGES | {Wait.PROCESS_EVENT, Wait.REMOTE_CALL, Wait.FILE_MARK}


def match(stuck: StuckSet) -> Match | None:
    """A cycle of several processes."""
    if has_sign(stuck):
        return None
    if found := _through_manager(stuck) or _holder_waits_for_waiter(stuck):
        return found
    pids = list(dict.fromkeys(key[0] for key in stuck.at_end))
    if stuck.ending is not Ending.CYCLE or len(pids) < 2:
        return None
    if any(_in_line(stuck, key, holder) for key in stuck.at_end for holder in stuck.at_end):
        return None
    has_lock = any(edge.holder_known for key in stuck.at_end if (edge := stuck.graph.node(key).edge))
    if not has_lock and not all(_holds(stuck, key) for key in stuck.at_end):
        return None
    kept = [
        f"{stuck.job.name(key[0])} has taken {count} permit{'s' * (count > 1)} more than it gave back"
        for key, count in kept_permits(stuck).items()
    ]
    return Match(
        summary=f"{stuck.job.names(pids)} wait for each other: {'; '.join((*kept, *_steps(stuck)))}",
        evidence=tuple(edge.evidence for key in stuck.at_end if (edge := stuck.graph.node(key).edge) and edge.evidence),
        advice=for_circle(stuck, stuck.at_end),
        certainty=Certainty.PROVED, tells_of=frozenset(stuck.at_end),
    )  # fmt: skip


def _steps(stuck: StuckSet) -> list[str]:
    """What each waits for, or what all do if that is the same, at one line; of an event loop and a permit the edge tells more."""
    alike = {(stuck.at(key), stuck.wait_state(key).words) for key in stuck.at_end}
    first = stuck.at_end[0]
    if len(alike) == 1 and stuck.wait_state(first).kind is not Wait.EVENT_LOOP and _held_by(stuck, first) == _LOCK:
        ((at, words),) = alike
        return [f"each waits{at} for {words}"]
    if len({pid for pid, _ in stuck.at_end}) > MOST_STEPS:
        # The chain has each of them with its line.
        return ["each for the next one"]
    return [f"{stuck.job.name(key[0])} waits{stuck.at(key)} for {stuck.waits_for(key)}" for key in stuck.at_end]


def _holds(stuck: StuckSet, key: ThreadKey) -> bool:
    """It waits for a lock, or for the other end of a pipe, queue or socket, also in tasks of an event loop; for the end of a
    program that reads its given input, or of a process that it owes an answer; for a thread of its own that only another
    process makes act; in a collective, for a rank that waits, through other processes, for the ranks in it; or for another
    thread of its process that does.
    """
    if _is_handed_over(stuck, key):
        return True
    kind = stuck.wait_state(key).kind
    if kind in (Wait.CONDITION, Wait.THREAD_QUEUE, Wait.FUTEX):
        return all(isinstance(target, tuple) and target[0] != key[0] for target in stuck.targets(key))
    if kind is Wait.EVENT_LOOP:
        loops = stuck.job.of(EventLoops)
        return bool(loops.held_up(key)) or any(row.waits in CONNECTIONS for row in loops.stuck(key))
    if kind is Wait.COLLECTIVE:
        found = split(stuck)
        return found is not None and found.how is Differs.STRANGER
    if kind in ENDS_OF_PROCESSES:
        targets = [target for target in stuck.targets(key) if isinstance(target, tuple)]
        return bool(targets) and all(_reads_input(stuck, target) or _asks(stuck, target, key) for target in targets)
    return kind in _HELD


def _is_handed_over(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread waits for another one of its process, which is in the cycle."""
    targets = (target for target in stuck.targets(key) if isinstance(target, tuple) and target[0] == key[0])
    return any(target != key and target in stuck.closed.root_blockers for target in targets)


def _asks(stuck: StuckSet, key: ThreadKey, server: ThreadKey) -> bool:
    """It waits for an answer of that thread alone."""
    asks = stuck.wait_state(key).kind is Wait.SOCKET and not waits_for_room(stuck, key)
    return asks and stuck.targets(key) == (server,)


def _reads_input(stuck: StuckSet, key: ThreadKey) -> bool:
    return in_given_stream(stuck.job, key) and not waits_for_room(stuck, key)


def _in_line(stuck: StuckSet, waiter: ThreadKey, holder: ThreadKey) -> bool:
    """Two consumers of one queue: one reads, the other waits for the queue's own lock. Having the pipe open does not make a
    consumer a writer.
    """
    edge = stuck.graph.node(waiter).edge
    getting = all(stuck.wait_state(key).kind is Wait.QUEUE_GET for key in (waiter, holder))
    return (
        getting
        and edge is not None
        and edge.holder_known
        and holder in edge.targets
        and waiter in stuck.targets(holder)
    )


def _through_manager(stuck: StuckSet) -> Match | None:
    """Clients of a manager whose calls each wait for another client's action."""
    clients, calls = exchanging(stuck), client_calls(stuck)
    if not clients:
        return None
    names = stuck.job.names(clients)
    waits = {key: f"in {calls[key] or 'a call'}()" for key in calls}
    steps = [
        f"{stuck.job.name(key[0])} {waits.get(key) or f'waits for {stuck.wait_state(key).words}'}{stuck.at(key)}"
        for key in clients
    ]  # fmt: skip
    return Match(
        summary=f"{names} wait for each other through a manager: {'; '.join(steps)}",
        evidence=stuck.edge_evidence(),
        advice=("Take the manager's locks in the same order everywhere, or give each wait a timeout.",),
        certainty=Certainty.LIKELY,
    )


def _holder_waits_for_waiter(stuck: StuckSet) -> Match | None:
    """A lock holder waits, among others, for a thread that needs that very lock to arrive: a barrier inside `with lock`."""
    kept = _kept_in_collective(stuck) or _kept_from_waiter(stuck)
    if kept is None:
        return None
    holder, others = kept
    name, needing, awaits = stuck.job.name(holder[0]), stuck.job.names(others), stuck.waits_for(holder)
    helpers = set(stuck.targets(holder))
    named = needing in awaits and helpers == set(others)
    needed = "" if named or helpers.isdisjoint(others) else _needed(stuck, holder, needing)
    many = len({pid for pid, _ in others}) > 1
    they = "they wait" if named and many else stuck.job.they(others, "wait")
    if stuck.wait_state(others[0]).kind is Wait.SOCKET:
        server = next(target for target in stuck.targets(others[0]) if isinstance(target, tuple))
        keeps = f"keeps open the only connection that {stuck.job.name(server[0])} serves, and {they} for the next turn"
        advice = "Close the connection before waiting for the others, or serve each one in a thread of its own."
    else:
        held = _held_by(stuck, others[0])
        keeps, advice = (
            f"has {held} that {they} for",
            f"Release {held.replace('a ', 'the ', 1)} before waiting for the others.",
        )
    return Match(
        summary=f"{name} waits{stuck.at(holder)} for {awaits}{needed}, but {keeps}{stuck.at(others[0])}",
        evidence=stuck.edge_evidence(),
        advice=(advice,),
        certainty=Certainty.LIKELY,
    )


def _held_by(stuck: StuckSet, waiter: ThreadKey) -> str:
    uses = [use for item in stuck.job.waits_on(waiter) for use in stuck.job.uses.get(item.id, ())]
    return "a permit" if any(use.max_value > 1 for use in uses) else _LOCK


def _needed(stuck: StuckSet, holder: ThreadKey, needing: str) -> str:
    """What the holder of the lock needs of those who need the lock; empty where what it waits for says so."""
    if waits_for_room(stuck, holder):
        return f", which only {needing} could make"
    kind, meets = stuck.wait_state(holder).kind, in_barrier(stuck.job.stacks.get(holder))
    if meets or kind in (Wait.COLLECTIVE, Wait.RENDEZVOUS):
        return f", which {needing} must enter"
    is_event = kind is Wait.PROCESS_EVENT
    if kind not in (Wait.QUEUE_GET, Wait.PIPE_READ) and not is_event:
        return ""
    others = any(not _needs_lock_of(stuck, key, holder) for key in stuck.targets(holder) if isinstance(key, tuple))
    return f", which {needing}{' and others' if others else ''} could {'set' if is_event else 'send'}"


def _kept_in_collective(stuck: StuckSet) -> tuple[ThreadKey, tuple[ThreadKey, ...]] | None:
    """A rank that holds a lock while in a collective, and the ranks that cannot enter it without that lock."""
    found = split(stuck)
    return (found.odd[0], found.others) if found and found.how is Differs.KEEPS_LOCK else None


def _kept_from_waiter(stuck: StuckSet) -> tuple[ThreadKey, tuple[ThreadKey, ...]] | None:
    if stuck.ending is not Ending.OPEN:
        return None
    for waiter in stuck.closed.members:
        holder = next(iter(stuck.targets(waiter)), None)
        if not isinstance(holder, tuple) or holder[0] == waiter[0] or not _needs_lock_of(stuck, waiter, holder):
            continue
        if not _in_line(stuck, waiter, holder):
            return holder, tuple(key for key in stuck.closed.members if _needs_lock_of(stuck, key, holder))
    return None


def _needs_lock_of(stuck: StuckSet, key: ThreadKey, holder: ThreadKey) -> bool:
    """The member waits for a lock or permit that this one holds, perhaps with others, and all of these wait for it, among
    others.
    """
    edge = stuck.graph.node(key).edge
    if edge is None or not edge.holder_known or holder not in edge.targets:
        return False
    return all(isinstance(target, tuple) and key in _awaited(stuck, target) for target in edge.targets)


def _awaited(stuck: StuckSet, key: ThreadKey) -> set[Target]:
    """Those that could end the wait of a member, and whom alone these wait for in turn."""
    found = set(stuck.targets(key))
    ahead = list(found)
    while ahead:
        last = ahead.pop()
        # A process may have both ends of a pipe by a fork; none waits for itself.
        behind = [row for row in stuck.targets(last) if row != key] if isinstance(last, tuple) else []
        if len(behind) == 1 and behind[0] not in found:
            found.add(behind[0])
            ahead.append(behind[0])
    return found
