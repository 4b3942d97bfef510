"""Where the main threads of ranks are from round to round: one cheap read each, paid from the budget for thorough looks.

How a rank spends its time shows only in many looks, and frames cost too much for that.  A system call with its stack pointer
and program counter costs a hundredth; what a thread does in it is told by looks that found it there (`mpmon.diagnosis.spots`).

They are read between two rounds, each time at another part of the pause: of a job with two steps a second rounds would see
the same part of a step again and again.  Where looks do not tell yet what a rank does in a place in which it was found, a
round reads once more where it is, and looks at it when it is there: a look at any other time would seldom find it in a short
part of its step.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mpmon.diagnosis.spots import MOST_PLACES, RUNNING
from mpmon.diagnosis.thresholds import LINE_LOOKS
from mpmon.model import CallPlace, Spot
from mpmon.probes.processes import ProcessTable
from mpmon.probes.syscalls import place_of
from mpmon.rows import kept
from mpmon.session.activity import Activity
from mpmon.session.budget import Budget
from mpmon.session.look import Look

MOST = 64
"""Ranks that are read in one round, those with the lowest pids."""


SOUGHT = 16
"""Of those the ones that are read again in one round, to find one in a place of which little is known."""

ENOUGH = 2 * LINE_LOOKS
"""Looks at a rank in one place: where they find several lines, most of these still tell which one it is."""

LATELY = 8
"""Readings after which a place is sought no more."""

IN_VAIN = 4
"""Looks at a rank that may tell no place, for each one that does and at first."""


@dataclass
class _Rank:
    """What is known of one of them."""

    spot: Spot | None = None
    """Where it was read last."""
    lately: deque[CallPlace] = field(default_factory=lambda: deque[CallPlace](maxlen=LATELY))
    told: Counter[CallPlace] = field(default_factory=Counter[CallPlace])
    """How often looks have found it in each place."""
    look: Look | None = None
    """The last one that is counted there."""
    looks: int = 0
    """How many there were, whether they told a place or not."""

    @property
    def is_sought(self) -> bool:
        """It was lately in a place of which little is known, and looks do tell where it is."""
        return self.looks <= IN_VAIN * (1 + self.told.total()) and any(map(self.is_untold, self.lately))

    def is_untold(self, place: CallPlace) -> bool:
        """Few looks have found it there, and another one would be remembered."""
        return place[0] != RUNNING and self.told[place] < ENOUGH and self._has_room(place)

    def count(self, look: Look) -> None:
        """Where the last look has found it."""
        if look is self.look:
            return
        self.look = look
        self.looks += 1
        places = (row.place for row in look.stacks or () if row.tid == look.pid and row.place)
        self.told.update(filter(self._has_room, places))

    def _has_room(self, place: CallPlace) -> bool:
        return place in self.told or len(self.told) < MOST_PLACES


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
        self._ranks: dict[int, _Rank] = {}
        self.rows: tuple[Spot, ...] = ()
        """One a rank, as far as they were read last."""
        self.pids: tuple[int, ...] = ()
        """Whose main threads are read."""
        self._turns = 0
        """Rounds in which some were sought."""

    def untold(self) -> dict[int, int]:
        """Those that are now in a place of which little is known: a look tells what they do there, and at which line.

        With each the number of looks that have found it there.
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
        """Read them anew, but for those that rest; none while looks are more needed."""
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
        """Its thread has not run since it was read, and not for a while."""
        before = self._ranks[pid].spot
        runs, rests = self._activity.runs(pid), self._activity.rests(pid, self._now())
        return before is not None and before.slices == runs and before.place[0] != RUNNING and rests

    def _read(self, pids: Iterable[int]) -> Iterator[Spot]:
        for pid in pids:
            place = place_of(self._table.main_call(pid))
            if place:
                yield Spot(pid=pid, place=place, slices=self._activity.runs(pid))
