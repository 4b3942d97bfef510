"""Consumers wait for an item, and all producers are gone or done.

What it looks like: a process stands in `get` of a queue, the pipe is empty, and nobody else can write to it.
Why: a producer died, or ended without a last item that says so.
What to do: put a sentinel for each consumer in a `finally`; use `get(timeout=…)` and check that producers are alive.
"""

from __future__ import annotations

from mpmon.diagnosis.balances import Balance, Ended, owing, put_by_ended
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.managers import client_calls, those_who_only_wait
from mpmon.diagnosis.mates import crashed_mates
from mpmon.diagnosis.needs.dead import advice_on, crashed_relatives, death, evidence_of
from mpmon.diagnosis.parts import Loss, loss
from mpmon.diagnosis.responsibility import those_gone
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "queue-empty"
NEEDS = frozenset({"stacks", "blocked", "handles"})


def claim(knot: Knot) -> Claim | None:
    """A reader of a queue or pipe without a living writer, or whose writers wait for its end."""
    if knot.ending in (Ending.OPEN, Ending.CYCLE):
        return _awaited_by_writers(knot)
    left_alone = knot.nobody is not None and knot.standing().kind in (Wait.QUEUE_GET, Wait.PIPE_READ)
    if loss(knot) is not Loss.ITEMS and not (left_alone and knot.nobody and knot.nobody.reason is Absent.NO_OTHER_END):
        return None
    pids = those_gone(knot) or [gone.pid for gone in knot.gone]
    producers = f"its producer {_dead_names(knot, pids)} is" if len(pids) == 1 else f"{_dead_names(knot, pids)} are"
    who = f"{producers} gone" if pids else "nobody is left who could put anything"
    return Claim(
        summary=f"{knot.role()} waits for {knot.standing().words}{knot.at()}, but {who}",
        evidence=(*evidence_of(knot.case, pids), *knot.edge_evidence()),
        advice=(
            *advice_on(knot.case, pids),
            "Put a sentinel (None) for each consumer in a finally, or use get(timeout=…) and check Process.is_alive().",
        ),
    )


def _ring(knot: Knot, readers: list[ThreadKey]) -> Claim | None:
    """Everybody waits for an item of another one, and all queues are empty: which of them owes one cannot be seen."""
    if knot.ending is Ending.CYCLE and all(_in_connection(knot, key) for key in readers):
        return None
    if len(readers) < 2 or crashed_mates(knot) or any(item.fill for key in readers for item in knot.case.waits_on(key)):
        return None
    owes = owing(knot.case, [pid for pid, _ in readers])
    steps = several(
        [f"{knot.case.role(key[0]).name} waits for {knot.standing(key).words}{knot.at(key)}" for key in readers]
    )
    return Claim(
        summary=f"{several([knot.case.role(key[0]).name for key in readers])} all wait for each other's items, and nothing "
        f"is on its way: {steps}",
        evidence=(_owed(knot, owes) if owes else "", *knot.edge_evidence()),
        advice=(
            "Search the job's standard error for QueueFeederThread: an item that could not be sent is lost there.",
            "Compare how many items each of them takes with how many it gives.",
        ),
        certainty=Certainty.LIKELY,
    )


def _in_connection(knot: Knot, key: ThreadKey) -> bool:
    """What it waits for is no queue, of which another one might put, but a connection with two ends."""
    return any(item.kind == "socket" for item in knot.case.waits_on(key))


def _owed(knot: Knot, owes: Balance) -> str:
    return (
        f"by their ledgers {knot.case.role(owes.pid).name} (pid {owes.pid}) took {owes.taken} items and put {owes.put}, "
        "and each of the others put as many as it took, or more, or makes little of much"
    )


def _awaited_by_writers(knot: Knot) -> Claim | None:
    """Whoever could put something waits for the end of those who wait for it."""
    calls = client_calls(knot)
    asking = knot.members_in(Wait.QUEUE_GET)
    readers = [key for key in asking if calls.get(key, "get") == "get"]
    served = knot.members_in(Wait.OTHER_CLIENTS)
    others = those_who_only_wait(knot)
    if len(readers) == len(knot.closed.members) and not calls:
        return _ring(knot, readers)
    if knot.in_handler:
        # It would put something, if the handler of a signal returned.
        return None
    if not readers or not others or len(readers) + len(others) + len(served) < len(knot.closed.members):
        return None
    names = several([knot.case.role(key[0]).name for key in readers])
    waits = several([f"{knot.case.role(key[0]).name} waits for {knot.standing(key).words}" for key in others])
    ended = put_by_ended(knot.case, readers[0])
    gone = crashed_relatives(knot.case, readers[0][0]) or list(ended.one if ended else ())
    left = f"but its producer {_dead_names(knot, gone)} is gone, and nobody else" if gone else "and nobody is left who"
    return Claim(
        summary=f"{names} wait{'s' if len(readers) == 1 else ''} for {knot.standing(readers[0]).words}"
        f"{knot.at(readers[0])}, {left} would put anything: {waits}",
        evidence=(*evidence_of(knot.case, gone), *_put_words(knot, ended), *knot.edge_evidence()),
        advice=(*advice_on(knot.case, gone), "Put a sentinel (None) for each consumer before waiting for its end."),
        certainty=Certainty.LIKELY,
    )


def _put_words(knot: Knot, ended: Ended | None) -> tuple[str, ...]:
    if ended is None:
        return ()
    who = _dead_names(knot, list(ended.pids))
    return (
        f"by the ledgers of the living {ended.items} items came into {ended.queue} from processes that have ended: {who}",
    )


def _dead_names(knot: Knot, pids: list[int]) -> str:
    return several([f"{knot.case.role(pid).name} (pid {pid}, {death(knot.case, pid).how})" for pid in pids])
