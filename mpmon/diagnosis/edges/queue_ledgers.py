"""Which process owes an item: it took more items out of queues than it put into others, while every other process put as
many as it took.

A process that by design puts far fewer items than it takes, such as a trainer that places one order for sixty batches, owes
nothing; of several processes that are short, the one that puts nearly one item for each it takes owes one.

A feeder thread that cannot pickle or send an item gives its permit back (`_on_queue_feeder_error` of
Lib/multiprocessing/queues.py), so the ledgers count it as never put.

The ledger of a process disappears with it, and the items it put then show up as a deficit in the sum of the others' ledgers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from mpmon.diagnosis.edges.numbered import ended_relatives
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import OWED_SHARE


class Balance(msgspec.Struct, frozen=True):
    """Items that one process took and put."""

    pid: int
    taken: int
    put: int

    @property
    def is_nearly_even(self) -> bool:
        """The process puts one item for each it takes, and only a few are missing."""
        return self.taken - self.put <= OWED_SHARE * self.taken

    @property
    def makes_little_of_much(self) -> bool:
        """By design, the process puts fewer items than it takes."""
        return 2 * self.put < self.taken


def owing(job: JobState, pids: Iterable[int]) -> Balance | None:
    """The only one of these processes that put less than it took, or the only such one that puts one for one; `None` unless
    it did put some, and the ledgers of all processes that take or put are known.
    """
    taken: defaultdict[int, int] = defaultdict(int)
    put: defaultdict[int, int] = defaultdict(int)
    for queue in job.snapshot.queues:
        if {pid for pid, _ in queue.ledgers} != {*queue.putters, *queue.getters}:
            return None
        for pid, count in queue.ledgers:
            (put if count > 0 else taken)[pid] += abs(count)
    balances = [Balance(pid, taken[pid], put[pid]) for pid in dict.fromkeys(pids)]
    short = [row for row in balances if row.put < row.taken]
    if len(short) > 1:
        short = [row for row in short if not row.makes_little_of_much]
        short = [row for row in short if row.is_nearly_even] if len(short) == 1 else short
    return short[0] if len(short) == 1 and len(balances) > 1 and short[0].put else None


class Ended(msgspec.Struct, frozen=True):
    """Items that exited processes put into a queue, as its only producers."""

    queue: str
    items: int
    """Items put minus items taken."""
    pids: tuple[int, ...]
    """The candidates."""

    @property
    def one(self) -> tuple[int, ...]:
        """The process, if there is only one candidate."""
        return self.pids if len(self.pids) == 1 else ()


def put_by_ended(job: JobState, key: ThreadKey) -> Ended | None:
    """For a thread that waits for a queue item: which exited relatives put the items so far, if no living process ever did."""
    names = {item.id for item in job.waits_on(key)}
    queue = next((row for row in job.snapshot.queues if row.object in names), None)
    if queue is None or queue.by_ended is None or queue.by_ended <= 0:
        return None
    if any(map(job.is_alive, (*queue.putters, *job.without_handles))) or job.outsiders.get(queue.object):
        return None
    relatives = ended_relatives(job, key[0])
    seen = [pid for pid in relatives if pid in queue.putters]
    able = [pid for pid in relatives if pid not in queue.getters and job.role(pid).kind not in NO_USERS]
    return Ended(queue.object, queue.by_ended, tuple(seen or able)) if seen or able else None


NO_USERS = frozenset({*HELPERS, "subprocess"})
"""Kinds of processes that use no queue of the program."""
