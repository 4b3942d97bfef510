"""Producers block in put(), and nobody consumes.

What it looks like: processes stand in `put` of a bounded queue; the consumer has ended, or waits for the producers,
or puts something into a full queue itself.
What to do: keep the consumer alive (catch its exceptions), or let producers give up: `put(timeout=…)`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.managers import client_calls, those_who_only_wait
from mpmon.diagnosis.needs.dead import advice_on, evidence_of
from mpmon.diagnosis.parts import Loss, loss
from mpmon.diagnosis.waits import ENDS, READS, Wait
from mpmon.diagnosis.words import several

CAUSE = "queue-full"
NEEDS = frozenset({"stacks", "blocked", "semaphores"})


def claim(knot: Knot) -> Claim | None:
    """A writer of a full queue without a living reader, or whose readers wait for its end, or for something else of it."""
    if knot.ending in (Ending.OPEN, Ending.CYCLE):
        return _awaited_by_readers(knot)
    putting = [key for key in knot.roots if knot.standing(key).kind is Wait.QUEUE_PUT]
    nobody_takes = knot.nobody is not None and knot.nobody.reason is Absent.NO_CONSUMER
    if loss(knot) is not Loss.ROOM and not nobody_takes:
        return None
    pids = [gone.pid for gone in knot.gone]
    names = several([f"{knot.case.role(gone.pid).name} (pid {gone.pid}, {gone.how})" for gone in knot.gone])
    producers = several([knot.case.role(key[0]).name for key in putting])
    return Claim(
        summary=f"{producers} block{'s' * (len(putting) == 1)} in put(): the queue is full, and "
        f"{f'its consumer {names} is gone' if names else 'no other process takes anything out'}",
        evidence=(*evidence_of(knot.case, pids), *knot.edge_evidence()),
        advice=(*advice_on(knot.case, pids), "Use put(timeout=…), and check Process.is_alive() of the consumer."),
    )


def _awaited_by_readers(knot: Knot) -> Claim | None:
    """Whoever could take something waits for the end of those who put; also through the queue of a manager."""
    calls = client_calls(knot)
    putting = [
        key for key in knot.closed.members if knot.standing(key).kind is Wait.QUEUE_PUT or calls.get(key) == "put"
    ]
    served = knot.members_in(Wait.OTHER_CLIENTS)
    asked = {target for key in putting for target in knot.targets(key)}
    readers = [key for key in those_who_only_wait(knot) if served or key in asked]
    readers += [key for key in knot.members_in(*READS) if key in asked]
    if not readers and not calls:
        return _all_put(knot, putting)
    if not putting or not readers or len(putting) + len(readers) + len(served) < len(knot.closed.members):
        return None
    producers = several([knot.case.role(key[0]).name for key in putting])
    reader = readers[0]
    waits = "their end" if knot.standing(reader).kind in ENDS else knot.standing(reader).words
    return Claim(
        summary=f"{producers} block{'s' * (len(putting) == 1)} in put(): the queue is full, and "
        f"{knot.case.role(reader[0]).name} waits for {waits}{knot.at(reader)} instead of taking anything out",
        evidence=knot.edge_evidence(),
        advice=(
            "Empty the queue before waiting for those who put, or tell them to stop and let them put(timeout=…).",
            "Let a thread of its own take things out.",
        ),
        certainty=Certainty.LIKELY,
    )


def _all_put(knot: Knot, putting: list[ThreadKey]) -> Claim | None:
    """Whoever could take something out of one queue stands in `put` of another one itself."""
    queues = {name for key in putting if (row := knot.case.blocked.get(key)) for name in row.waits_on}
    ends = those_who_only_wait(knot)
    if knot.ending is not Ending.OPEN or len(queues) < 2 or len(putting) + len(ends) < len(knot.closed.members):
        return None
    steps = several([f"{knot.case.role(key[0]).name}{knot.at(key)}" for key in putting])
    return Claim(
        summary=f"{steps} all block in put(): their queues are full, and each of those who could take something out puts "
        "something itself",
        evidence=knot.edge_evidence(),
        advice=(
            "Take results out while tasks are put in: let a thread of its own do one of the two.",
            "Or leave the queue of results without a bound.",
        ),
        certainty=Certainty.LIKELY,
    )
