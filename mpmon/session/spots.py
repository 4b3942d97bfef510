"""Where the main threads of ranks are from round to round: one cheap read each, paid from the budget for thorough looks.

How a rank spends its time shows only in many readings, and frames cost too much for that.  A system call with its stack
pointer and program counter costs a hundredth; looks that found the thread there show what it does
(`mpmon.diagnosis.state.spots`).

Spots are read between two rounds, each time at another point of the pause: with two steps a second, rounds would see
the same part of a step again and again.  If looks do not yet show what a rank does in a place where it was found, a
round reads once more where the rank is, and looks at it if it is there: a look at any other time would seldom hit a
short part of its step.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mpmon.diagnosis.state.spots import MOST_PLACES, RUNNING
from mpmon.diagnosis.thresholds import LINE_LOOKS
from mpmon.model import CallPlace, Spot
from mpmon.probes.processes import ProcessTable
from mpmon.probes.syscalls import place_of
from mpmon.rows import kept
from mpmon.session.activity import Activity
from mpmon.session.budget import Budget
from mpmon.session.look import Look

MOST = 64
"""Most ranks read in one round, those with the lowest pids."""


SOUGHT = 16
"""Most ranks read again in one round, to find one in a place of which little is known."""

ENOUGH = 2 * LINE_LOOKS
"""Looks at a rank in one place that suffice: if they find several lines, the majority still shows which one it is."""

LATELY = 8
"""Readings after which a place is no longer sought."""

IN_VAIN = 4
"""Looks at a rank that may fail to show a place: this many at first, and as many for each look that shows one."""


@dataclass
class _Rank:
    """What is known of one rank."""

    spot: Spot | None = None
    """The last reading of where it is."""
    lately: deque[CallPlace] = field(default_factory=lambda: deque[CallPlace](maxlen=LATELY))
    told: Counter[CallPlace] = field(default_factory=Counter[CallPlace])
    """How often looks have found it in each place."""
    look: Look | None = None
    """The last look counted in `told`."""
    looks: int = 0
    """The number of looks, whether they showed a place or not."""

    @property
    def is_sought(self) -> bool:
        """Whether it was recently in a place of which little is known, and looks at it do show places."""
        return self.looks <= IN_VAIN * (1 + self.told.total()) and any(map(self.is_untold, self.lately))

    def is_untold(self, place: CallPlace) -> bool:
        """Whether few looks have found it there, and another one would be remembered."""
        return place[0] != RUNNING and self.told[place] < ENOUGH and self._has_room(place)

    def count(self, look: Look) -> None:
        """Count where the last look has found it."""
        if look is self.look:
            return
        self.look = look
        self.looks += 1
        places = (row.place for row in look.stacks or () if row.tid == look.pid and row.place)
        self.told.update(filter(self._has_room, places))

    def _has_room(self, place: CallPlace) -> bool:
        return place in self.told or len(self.told) < MOST_PLACES


class Spots:
    """Where the main threads of ranks were in the last round."""

    def __init__(
        self,
        table: ProcessTable,
        activity: Activity,
        looks: Mapping[int, Look],
        budget: Budget | None,
        *,
        now: Callable[[], float],
    ) -> None:
        """`looks` has the last look at each process, and is updated by its owner; for one report there is no budget."""
        self._now = now
        self._table = table
        self._activity = activity
        self._looks = looks
        self._budget = budget
        self._ranks: dict[int, _Rank] = {}
        self.rows: tuple[Spot, ...] = ()
        """One row per rank that could be read, from its last reading."""
        self.pids: tuple[int, ...] = ()
        """Processes whose main threads are read."""
        self._turns = 0
        """Rounds in which some ranks were sought."""

    def untold(self) -> dict[int, int]:
        """Ranks that are now in a place of which little is known: a look shows what they do there, and at which line.

        The values are the numbers of looks that have found the rank there.
        """
        sought = [pid for pid in self._ranks.keys() & self._table.living if self._is_sought(pid)]
        if not sought or not self._may_read(min(SOUGHT, len(sought))):
            return {}
        first = self._turns * SOUGHT % len(sought)
        self._turns += 1
        found = self._read([*sought[first:], *sought[:first]][:SOUGHT])
        ranks = self._ranks
        return {row.pid: ranks[row.pid].told[row.place] for row in found if ranks[row.pid].is_untold(row.place)}

    def read(self) -> None:
        """Read the spots again, except of ranks that rest; read none while the budget is needed for looks."""
        pids = [pid for pid in self.pids if pid in self._table.living and pid in self._looks][:MOST]
        self._ranks = {pid: self._ranks.get(pid) or _Rank() for pid in pids}
        again = [pid for pid in pids if not self._rests(pid)]
        found = {row.pid: row for row in self._read(again)} if self._may_read(len(again)) else {}
        for pid, rank in self._ranks.items():
            rank.count(self._looks[pid])
            if pid in again:
                rank.spot = found.get(pid)
            if rank.spot:
                rank.lately.append(rank.spot.place)
        self.rows = kept(tuple(rank.spot for rank in self._ranks.values() if rank.spot), self.rows)

    def _is_sought(self, pid: int) -> bool:
        return self._ranks[pid].is_sought and not self._rests(pid)

    def _may_read(self, count: int) -> bool:
        return self._budget is None or self._budget.spend_on_spots(count)

    def _rests(self, pid: int) -> bool:
        """Whether its main thread has not run since it was read, and not for a while."""
        before = self._ranks[pid].spot
        runs, rests = self._activity.runs(pid), self._activity.rests(pid, self._now())
        return before is not None and before.slices == runs and before.place[0] != RUNNING and rests

    def _read(self, pids: Iterable[int]) -> Iterator[Spot]:
        for pid in pids:
            place = place_of(self._table.main_call(pid))
            if place:
                yield Spot(pid=pid, place=place, slices=self._activity.runs(pid))
