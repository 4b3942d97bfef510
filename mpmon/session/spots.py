"""Where the main threads of ranks are from round to round: one cheap read each, paid from the budget for thorough looks.

How a rank spends its time shows only in many looks, and frames cost too much for that.  A system call with its stack pointer
and program counter costs a hundredth; what a thread does in it is told by a look that found it there (`mpmon.diagnosis.spots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mpmon.diagnosis.spots import RUNNING
from mpmon.model import CallPlace, Spot
from mpmon.probes.processes import ProcessTable
from mpmon.probes.syscalls import place_of
from mpmon.rows import kept
from mpmon.session.activity import Activity
from mpmon.session.budget import Budget
from mpmon.session.look import Look

MOST = 64
"""Ranks that are read in one round, those with the lowest pids."""


class Spots:
    """Of the last round."""

    def __init__(self, table: ProcessTable, activity: Activity, looks: Mapping[int, Look], budget: Budget) -> None:
        """`looks` has the last look at each process, as it is at any time."""
        self._table = table
        self._activity = activity
        self._looks = looks
        self._budget = budget
        self._rows: dict[int, Spot] = {}
        self._table_before: tuple[Spot, ...] = ()
        self.pids: tuple[int, ...] = ()
        """Whose main threads are read."""
        self._told: dict[int, frozenset[CallPlace]] = {}
        """Places in which a look has found them."""

    @property
    def untold(self) -> set[int]:
        """Those that were where no look has found them: one tells what they do there."""
        rows = (row for row in self._rows.values() if row.place[0] != RUNNING)
        return {row.pid for row in rows if row.place not in self._told.get(row.pid, ())}

    def read(self, now: float) -> tuple[Spot, ...]:
        """One row a rank, the very same one as long as its thread has not run; none while looks are more needed."""
        pids = [pid for pid in self.pids if pid in self._table.living][:MOST]
        ran = [pid for pid in pids if self._may_have_run(pid)]
        allowed = self._budget.spend_on_spots(len(ran))
        found = {row.pid: row for row in self._read(ran)} if allowed else {}
        self._rows = {pid: found.get(pid) or self._rows[pid] for pid in pids if pid in found or pid not in ran}
        self._told = {pid: self._told.get(pid, frozenset()) | self._places_of_look(pid, now) for pid in self._rows}
        self._table_before = kept(tuple(self._rows.values()), self._table_before)
        return self._table_before

    def _may_have_run(self, pid: int) -> bool:
        """Also one that was on a CPU, and may have come to a wait since."""
        before = self._rows.get(pid)
        return before is None or before.place[0] == RUNNING or before.slices != self._activity.runs(pid)

    def _places_of_look(self, pid: int, now: float) -> frozenset[CallPlace]:
        """Where a look of this round has found it."""
        look = self._looks.get(pid)
        stacks = (look.stacks if look and look.at == now else None) or ()
        return frozenset(row.place for row in stacks if row.tid == pid and row.place)

    def _read(self, pids: Iterable[int]) -> Iterator[Spot]:
        for pid in pids:
            place = place_of(self._table.main_call(pid))
            if place:
                yield Spot(pid=pid, place=place, slices=self._activity.runs(pid))
