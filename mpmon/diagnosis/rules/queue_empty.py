"""Consumers wait for an item, and all producers are gone or done.

What it looks like: a process is in `get` of a queue, the pipe is empty, and no other process can write to it.
Why: a producer died, or ended without sending an end marker.
What to do: put a sentinel for each consumer in a `finally`; use `get(timeout=…)` and check that producers are alive.
"""

from __future__ import annotations

from collections import Counter

from mpmon.diagnosis.criteria.losses import Loss, loss
from mpmon.diagnosis.edges.dead import crashed_relatives
from mpmon.diagnosis.edges.deaths import advice_on, death, evidence_of
from mpmon.diagnosis.edges.queue_ledgers import Balance, Ended, owing, put_by_ended
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.responsibility.ended import those_gone
from mpmon.diagnosis.responsibility.passed_round import ended_scripts
from mpmon.diagnosis.responsibility.servers import asked_by_all
from mpmon.diagnosis.responsibility.streams import kept_ends
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, OUTCOMES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.crashed_siblings import crashed_mates
from mpmon.diagnosis.stuck.dropped_items import dropped
from mpmon.diagnosis.stuck.manager_calls import client_calls
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "queue-empty"
NEEDS = frozenset({"stacks", "blocked", "handles"})


def match(stuck: StuckSet) -> Match | None:
    """A reader of a queue or pipe with no live writer, or whose writers wait for it to end."""
    if dropped(stuck):
        return None
    if stuck.ending in (Ending.OPEN, Ending.CYCLE):
        return _kept_open(stuck) or _awaited_by_writers(stuck)
    left_alone = stuck.nobody is not None and stuck.wait_state().kind in (Wait.QUEUE_GET, Wait.PIPE_READ)
    if loss(stuck) is not Loss.ITEMS and not (
        left_alone and stuck.nobody and stuck.nobody.reason is Absent.NO_OTHER_END
    ):
        return None
    pids = those_gone(stuck) or [gone.pid for gone in stuck.gone]
    producers = f"its producer {_dead_names(stuck, pids)} is" if len(pids) == 1 else f"{_dead_names(stuck, pids)} are"
    who = f"{producers} gone" if pids else "no process is left that could put anything"
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {stuck.wait_state().words}, but {who}",
        evidence=(*evidence_of(stuck.job, pids), *stuck.edge_evidence()),
        advice=(
            *advice_on(stuck.job, pids),
            _OF_PIPE if stuck.wait_state().kind is Wait.PIPE_READ else _OF_QUEUE,
        ),
    )


_OF_QUEUE = (
    "Put a sentinel (None) for each consumer in a finally block, or use get(timeout=…) and check Process.is_alive()."
)
_OF_PIPE = (
    "Send an end marker in a finally block, or close every writing end, so that the reader meets the end of the data."
)


def _ring(stuck: StuckSet, readers: list[ThreadKey]) -> Match | None:
    """Each process waits for an item from another, and all queues are empty: which one owes an item cannot be seen. Not where
    only those named can help: they wait for each other.
    """
    if (
        _reads_from_each_other(stuck, readers)
        or len(readers) < 2
        or crashed_mates(stuck)
        or any(item.fill for key in readers for item in stuck.job.waits_on(key))
    ):
        return None
    owes = owing(stuck.job, [pid for pid, _ in readers])
    steps = several(
        [f"{stuck.job.name(key[0])} waits{stuck.at(key)} for {stuck.wait_state(key).words}" for key in readers]
    )
    return Match(
        summary=f"{stuck.job.names(readers)} all wait for each other's items, and {_on_the_way(stuck)}: {steps}",
        evidence=(_owed(stuck, owes) if owes else "", *stuck.edge_evidence()),
        advice=(
            "Search the job's standard error for QueueFeederThread: items that could not be sent are reported there.",
            "Compare how many items each process takes with how many it puts.",
        ),
        certainty=Certainty.LIKELY,
    )


def _reads_from_each_other(stuck: StuckSet, readers: list[ThreadKey]) -> bool:
    in_pipes = all(item.kind == "pipe" for key in readers for item in stuck.job.waits_on(key))
    return in_pipes and stuck.ending is Ending.CYCLE and stuck.closed.exact


def _on_the_way(stuck: StuckSet) -> str:
    """What lies in the queues that the members use."""
    job, pids = stuck.job, {pid for pid, _ in stuck.closed.members}
    full = [
        row
        for row in job.snapshot.queues
        if row.items and any(at.pid in pids for at in job.holders.get(row.object, ()))
    ]
    left = several([f"{row.items} in {row.object}" for row in full])
    return f"nobody takes the items that lie in a queue ({left})" if full else "nothing is on its way"


def _in_connection(stuck: StuckSet, key: ThreadKey) -> bool:
    """It waits on a two-ended connection, not on a queue that a third process might put into."""
    return any(item.kind == "socket" for item in stuck.job.waits_on(key))


def _owed(stuck: StuckSet, owes: Balance) -> str:
    return (
        f"item counts: {stuck.job.full_name(owes.pid)} took {owes.taken} and put {owes.put}; no other process is short: each put "
        "as many as it took, or has always put far fewer"
    )


def _awaited_by_writers(stuck: StuckSet) -> Match | None:
    """Every process that could put an item waits for its consumers to end."""
    calls = client_calls(stuck)
    asking = stuck.members_in(Wait.QUEUE_GET)
    readers = [key for key in asking if calls.get(key, "get") == "get"]
    served = stuck.members_in(Wait.OTHER_CLIENTS)
    # What a task itself reads from a pipe its pool does not put there.
    others = stuck.members_in(*(OUTCOMES if calls else ENDS_OF_PROCESSES))
    if stuck.ending is Ending.CYCLE and all(_in_connection(stuck, key) for key in stuck.at_end):
        # Calls in a circle, each over a connection of its own, whoever waits for their end.
        return None
    if len(readers) == len(stuck.closed.members) and not calls:
        server = asked_by_all(stuck)
        return (
            _wants_more(stuck, server[0], [key for key in readers if key not in server])
            if server
            else _ring(stuck, readers)
        )
    if ended_scripts(stuck):
        # The script that would put one has ended.
        return None
    if stuck.in_handler:
        # It would put an item if its signal handler returned.
        return None
    if not readers or not others or len(readers) + len(others) + len(served) < len(stuck.closed.members):
        return None
    if not calls and (server := asked_by_all(stuck)):
        return _wants_more(stuck, server[0], [key for key in readers if key not in server])
    waits = several([f"{stuck.job.name(key[0])} waits for {stuck.wait_state(key).words}" for key in others])
    ended = put_by_ended(stuck.job, readers[0])
    gone = crashed_relatives(stuck.job, readers[0][0]) or list(ended.one if ended else ())
    left = f"but its producer {_dead_names(stuck, gone)} is gone, and no other process" if gone else "and no process"
    return Match(
        summary=f"{stuck.job.they(readers, 'wait')} for {stuck.wait_state(readers[0]).words}"
        f"{stuck.at(readers[0])}, {left} will put one: {waits}",
        evidence=(*evidence_of(stuck.job, gone), *_put_words(stuck, ended), *stuck.edge_evidence()),
        advice=(*advice_on(stuck.job, gone), "Put one sentinel (None) for each consumer before joining them."),
        certainty=Certainty.LIKELY,
    )


def _kept_open(stuck: StuckSet) -> Match | None:
    """A reader that would go on at the end of its input, which processes keep away that have inherited the other end."""
    kept = kept_ends(stuck)
    if not kept:
        return None
    (reader, keepers), *_ = kept.items()
    names, alone = stuck.job.names(keepers), len(keepers) == 1
    keep, were = ("keeps", "it was") if alone else ("keep", "they were")
    return Match(
        summary=f"{stuck.job.name(reader[0])} waits{stuck.at(reader)} for {stuck.wait_state(reader).words} or the end of its "
        f"input, whose other end {names} {keep} open without using it: {were} forked while that end was open",
        evidence=stuck.edge_evidence(),
        advice=(
            "In each child, close the ends that are not its own, or start the processes with spawn, which inherits none.",
            "Or send an end marker (None) instead of closing the pipe.",
        ),
        certainty=Certainty.LIKELY,
        tells_of=frozenset({reader}),
    )


def _wants_more(stuck: StuckSet, server: ThreadKey, clients: list[ThreadKey]) -> Match:
    """A server that collects requests wants one more, and all its clients wait for its answers."""
    name, at = stuck.job.name(server[0]), Counter(map(stuck.at, clients))
    apart = [key for key in clients if len(at) > 1 and at[stuck.at(key)] < max(at.values())]
    differ = f"; {stuck.job.they(apart, 'wait')}{stuck.at(apart[0])}, unlike the others" if apart else ""
    return Match(
        summary=f"{name} waits{stuck.at(server)} for {stuck.wait_state(server).words}, but every process that could put one is "
        f"waiting for an answer from {name}: {stuck.job.names(clients)}{differ}",
        evidence=stuck.edge_evidence(),
        advice=(
            f"Let {name} answer the requests it has after a time limit (get(timeout=…)), instead of waiting for a fixed number.",
            "A client that has nothing to send must say so (None), if it is counted.",
        ),
        certainty=Certainty.LIKELY,
    )


def _put_words(stuck: StuckSet, ended: Ended | None) -> tuple[str, ...]:
    if ended is None:
        return ()
    who = _dead_names(stuck, list(ended.pids))
    return (
        f"by the counts of live processes, {ended.items} items in {ended.queue} came from processes that have ended: {who}",
    )


def _dead_names(stuck: StuckSet, pids: list[int]) -> str:
    return several([f"{stuck.job.role(pid).name} (pid {pid}, {death(stuck.job, pid).how})" for pid in pids])
