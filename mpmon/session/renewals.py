"""Processes that are looked at again before a hang is reported, since what is known of them is older than the hang.

That nobody has the other end of a connection, or holds a lock, is found by looking at every process of the job.  One that
has run since the look at it may have accepted the connection or taken the lock meanwhile; one that has not run still holds
what it held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mpmon.probes.processes import ProcessTable
from mpmon.session.activity import Activity
from mpmon.session.look import Look

PER_ROUND = 64
"""Most processes looked at again in one round, at some 5 ms of CPU each; the next round follows at once and goes on."""


class Foreseen(NamedTuple):
    """What a snapshot would show, before it is shown."""

    threads: Mapping[int, Collection[int]]
    """The threads, by process, that a hang would rest on, see `mpmon.diagnosis.explanation.basis`."""
    is_hang: bool


class Renewals:
    """Remembers since when a hang has been foreseen."""

    def __init__(self, table: ProcessTable, activity: Activity, looks: Mapping[int, Look]) -> None:
        """`looks` has the last look at each process, and is updated by its owner."""
        self._table = table
        self._activity = activity
        self._looks = looks
        self._rests_on: set[tuple[int, int]] = set()
        self._since = 0.0
        self.pending = False
        """More processes were due in the last round than are looked at in one."""

    def due(self, foreseen: Foreseen, now: float) -> list[int]:
        """Pids of those that have run since a look at them that was made before the hang was first foreseen, or on which the
        hang rests, oldest looks first.
        """
        self.pending = False
        if not foreseen.is_hang:
            self._rests_on.clear()
            return []
        threads = {(pid, tid) for pid, tids in foreseen.threads.items() for tid in tids}
        if not threads <= self._rests_on:
            self._since = now
        # One that is back in the basis has been there before: a basis that changes to and fro is one hang.
        self._rests_on |= threads
        at = {
            pid: look.at if (look := self._looks.get(pid)) else 0.0 for pid in self._activity.moved & self._table.living
        }
        older = sorted(
            (pid for pid in at if at[pid] < self._since or pid in foreseen.threads), key=lambda pid: (at[pid], pid)
        )
        self.pending = len(older) > PER_ROUND
        return older[:PER_ROUND]
