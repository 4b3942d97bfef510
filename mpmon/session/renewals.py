"""Processes that are looked at again before a hang is reported, since what is known of them is older than the hang.

That nobody has the other end of a connection, or holds a lock, is found by looking at every process of the job.  One that
has run since the look at it may have accepted the connection or taken the lock meanwhile; one that has not run still holds
what it held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mpmon.session.activity import Activity
from mpmon.session.look import Look

PER_ROUND = 64
"""Most processes looked at again in one round, at some 2 ms each; the next round goes on."""


class Foreseen(NamedTuple):
    """What a snapshot would show, before it is shown."""

    threads: Mapping[int, Collection[int]]
    """The threads, by process, that a hang would rest on, see `mpmon.diagnosis.explanation.basis`."""
    is_hang: bool


class Renewals:
    """Remembers since when a hang has been foreseen."""

    def __init__(self, activity: Activity, looks: Mapping[int, Look]) -> None:
        """`looks` has the last look at each process, and is updated by its owner."""
        self._activity = activity
        self._looks = looks
        self._rests_on: set[tuple[int, int]] = set()
        self._since = 0.0

    def due(self, foreseen: Foreseen, now: float) -> list[int]:
        """Pids of those that have run since a look at them that was made before the hang was first foreseen."""
        if not foreseen.is_hang:
            self._rests_on.clear()
            return []
        threads = {(pid, tid) for pid, tids in foreseen.threads.items() for tid in tids}
        if not threads <= self._rests_on:
            self._since = now
        self._rests_on = threads
        return sorted(pid for pid in self._activity.moved if self._is_older(pid))[:PER_ROUND]

    def _is_older(self, pid: int) -> bool:
        look = self._looks.get(pid)
        return look is None or look.at < self._since
