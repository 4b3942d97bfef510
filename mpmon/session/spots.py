"""Where the main threads of ranks are from round to round: one cheap read each, paid from the budget for thorough looks.

How a rank spends its time shows only in many looks, and frames cost too much for that.  A system call with its stack pointer
and program counter costs a hundredth; what a thread does in it is told by looks that found it there (`mpmon.diagnosis.spots`).

They are read between two rounds, each time at another part of the pause: of a job with two steps a second rounds would see
the same part of a step again and again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from mpmon.diagnosis.spots import LEAST_LOOKS, RUNNING
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

    def __init__(
        self,
        table: ProcessTable,
        activity: Activity,
        looks: Mapping[int, Look],
        budget: Budget | None,
        *,
        now: Callable[[], float],
    ) -> None:
        """`looks` has the last look at each process, as it is at any time; for one report there is no budget."""
        self._now = now
        self._table = table
        self._activity = activity
        self._looks = looks
        self._budget = budget
        self._rows: dict[int, Spot] = {}
        self.rows: tuple[Spot, ...] = ()
        """One a rank, as far as they were read last."""
        self.pids: tuple[int, ...] = ()
        """Whose main threads are read."""
        self._told: dict[int, Counter[CallPlace]] = {}
        """How often looks have found them in each place."""
        self._counted: dict[int, Look] = {}
        """The looks that are counted there, the last ones."""

    @property
    def untold(self) -> set[int]:
        """Those that were where few looks have found them: these tell what they do there, and at which line."""
        rows = (row for row in self._rows.values() if row.place[0] != RUNNING)
        return {row.pid for row in rows if self._told[row.pid][row.place] < LEAST_LOOKS}

    def read(self) -> None:
        """Read them anew, but for those that rest; none while looks are more needed."""
        pids = [pid for pid in self.pids if pid in self._table.living and pid in self._looks][:MOST]
        again = [pid for pid in pids if not self._rests(pid)]
        allowed = self._budget is None or self._budget.spend_on_spots(len(again))
        found = {row.pid: row for row in self._read(again)} if allowed else {}
        self._rows = {pid: found.get(pid) or self._rows[pid] for pid in pids if pid in found or pid not in again}
        self.rows = kept(tuple(self._rows.values()), self.rows)
        for pid in pids:
            self._count(pid)
        for pid in self._told.keys() - pids:
            del self._told[pid], self._counted[pid]

    def _rests(self, pid: int) -> bool:
        """Its thread has not run since it was read, and not for a while."""
        before = self._rows.get(pid)
        runs, rests = self._activity.runs(pid), self._activity.rests(pid, self._now())
        return before is not None and before.slices == runs and before.place[0] != RUNNING and rests

    def _count(self, pid: int) -> None:
        """Where the last look has found it."""
        look = self._looks[pid]
        if look is self._counted.get(pid):
            return
        self._counted[pid] = look
        places = (row.place for row in look.stacks or () if row.tid == pid and row.place)
        self._told.setdefault(pid, Counter()).update(places)

    def _read(self, pids: Iterable[int]) -> Iterator[Spot]:
        for pid in pids:
            place = place_of(self._table.main_call(pid))
            if place:
                yield Spot(pid=pid, place=place, slices=self._activity.runs(pid))
