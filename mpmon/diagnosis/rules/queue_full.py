"""Producers block in put(), and nobody consumes.

What it looks like: processes are in `put` of a bounded queue; the consumer has ended, is waiting for the producers, or is
itself blocked putting into a full queue.
What to do: keep the consumer alive (catch its exceptions), or let producers give up: `put(timeout=…)`.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.losses import Loss, loss
from mpmon.diagnosis.edges.deaths import advice_on, evidence_of
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, READS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.manager_calls import client_calls
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "queue-full"
NEEDS = frozenset({"stacks", "blocked", "semaphores"})


def match(stuck: StuckSet) -> Match | None:
    """A writer to a full queue with no live reader, or whose readers wait for it to end, or for something else from it."""
    if stuck.ending in (Ending.OPEN, Ending.CYCLE):
        return _awaited_by_readers(stuck)
    putting = [key for key in stuck.at_end if stuck.wait_state(key).kind is Wait.QUEUE_PUT]
    nobody_takes = stuck.nobody is not None and stuck.nobody.reason is Absent.NO_CONSUMER
    if loss(stuck) is not Loss.ROOM and not nobody_takes:
        return None
    pids = [gone.pid for gone in stuck.gone]
    names = several([f"{stuck.job.role(gone.pid).name} (pid {gone.pid}, {gone.how})" for gone in stuck.gone])
    return Match(
        summary=f"{stuck.job.they(putting, 'block')} in put(): the queue is full, and "
        f"{f'its consumer {names} is gone' if names else 'no other process takes anything out'}",
        evidence=(*evidence_of(stuck.job, pids), *stuck.edge_evidence()),
        advice=(*advice_on(stuck.job, pids), "Use put(timeout=…), and check Process.is_alive() of the consumer."),
    )


def _awaited_by_readers(stuck: StuckSet) -> Match | None:
    """Every process that could take an item waits for the producers instead; also through a manager's queue."""
    calls = client_calls(stuck)
    putting = [
        key for key in stuck.closed.members if stuck.wait_state(key).kind is Wait.QUEUE_PUT or calls.get(key) == "put"
    ]
    served = stuck.members_in(Wait.OTHER_CLIENTS)
    asked = {target for key in putting for target in stuck.targets(key)}
    readers = [key for key in stuck.members_in(*ENDS_OF_PROCESSES) if served or key in asked]
    readers += [key for key in stuck.members_in(*READS) if key in asked]
    if not readers and not calls:
        return _all_put(stuck, putting)
    if not putting or not readers or len(putting) + len(readers) + len(served) < len(stuck.closed.members):
        return None
    reader = readers[0]
    waits = "their end" if stuck.wait_state(reader).kind in ENDS_OF_PROCESSES else stuck.wait_state(reader).words
    return Match(
        summary=f"{stuck.job.they(putting, 'block')} in put(): the queue is full, and "
        f"{stuck.job.name(reader[0])} waits for {waits}{stuck.at(reader)} instead of taking anything out",
        evidence=stuck.edge_evidence(),
        advice=(
            "Drain the queue before waiting for the producers, or tell them to stop and let them use put(timeout=…).",
            "Or drain it in a separate thread.",
        ),
        certainty=Certainty.LIKELY,
    )


def _all_put(stuck: StuckSet, putting: list[ThreadKey]) -> Match | None:
    """Every process that could take from one queue is itself blocked in `put` on another."""
    queues = {name for key in putting if (row := stuck.job.blocked.get(key)) for name in row.waits_on}
    ends = stuck.members_in(*ENDS_OF_PROCESSES)
    if stuck.ending is not Ending.OPEN or len(queues) < 2 or len(putting) + len(ends) < len(stuck.closed.members):
        return None
    places: dict[str, list[ThreadKey]] = {}
    for key in putting:
        places.setdefault(stuck.at(key), []).append(key)
    steps = several([f"{stuck.job.names(keys)}{at}" for at, keys in places.items()])
    return Match(
        summary=f"{steps} block in put(): their queues are full, and every process that could take something out is itself in "
        "put()",
        evidence=stuck.edge_evidence(),
        advice=(
            "Take results out while putting tasks in: do one of the two in a separate thread.",
            "Or make the result queue unbounded.",
        ),
        certainty=Certainty.LIKELY,
    )
