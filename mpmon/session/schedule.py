"""Which processes get a thorough look in a round: those that have run since the last one, if due and affordable.

Whether a process is due:

- had no look yet: yes, once;
- has not run since the last look: no, the rows of that look still hold;
- has run: when its interval is over; it grows while the looks find the same, and starts again when they differ;
- came to rest in a system call that no recent look at it has found: at once, for a hang may have begun;
- has rested for a while in a call other than that of its last look: in its turn, for what that look found is over;
- is a rank in a place of which little is known: at once, first of all that keep running;
- its other threads run while its main thread rests: like a process that has run, for they may serve standing processes;
- keeps running: only while another process stands still and may wait for it, or the user views it; in a large job whose
  looks have long found the same, one process after the other.

The looks of a round are bounded too, and so are dumps of stacks over time (`budget`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from mpmon.probes.processes import ProcessTable
from mpmon.session.activity import Activity
from mpmon.session.budget import RESERVE, Budget
from mpmon.session.look import FIRST_INTERVAL_S, LONGEST_INTERVAL_S, Look

PER_ROUND, ROUNDS = 16, 8
"""Most looks in one round, so that a round stays short; the next round goes on. In a large job more, so that all are seen
within `ROUNDS`: a round also judges all processes, which takes longer than 16 looks.
"""

AGAIN_PER_ROUND = 4
"""Most looks in one round that are due only because time has passed."""

CROWD, TURN_S = 64, 5.0
"""Of `CROWD` processes one is always due. In a larger job, looks at processes whose looks have long found the same are
`TURN_S` seconds apart: each takes 5 ms of CPU, and what is saved is there for a hang.
"""

WOKEN_INTERVAL_S = 4.0
"""Longest interval between looks at a running process, after another one has come to stand still."""

ROOT_INTERVAL_S = 10.0
"""Longest interval between looks at the root, whose frames show which process it waits for."""

SPARING_INTERVAL_S = 30.0
"""Shortest interval between looks at a running process while the budget is low: it is kept for processes at rest."""

NEARLY = 0.9
"""Share of an interval that is enough: the round in which it ends may come a little early."""

RESTS_LONG_S = 4.0
"""A worker that alternates between calls it was seen in seldom rests this long in one of them."""


FOR_OTHERS = 0.75
"""Share of the reserve that is not spent on finding out what ranks do."""


class _Rest(Enum):
    """Where a process that has run since its last look now rests."""

    NEW = auto()
    """In a call that no recent look at it has found."""
    OVER = auto()
    """For long in a call other than that of the last look: what that look found is over."""
    AGAIN = auto()
    """In the call of the last look, or not for long in one of an earlier look."""


class Schedule:
    """Chooses the processes of each round."""

    def __init__(
        self, table: ProcessTable, activity: Activity, looks: Mapping[int, Look], budget: Budget, *, eager: bool
    ) -> None:
        """`looks` has the last look at each process, and is updated by its owner.

        `eager` (for one report) looks in every round at what has moved, without growing intervals or budget, but in
        turns: dumps of hundreds of processes a second would take CPU from the job.
        """
        self._table = table
        self._activity = activity
        self._looks = looks
        self._eager = eager
        self._budget = budget
        self._all_due = False
        self._is_first = True
        self._rests: dict[int, _Rest] = {}
        self._turn_at = float("-inf")
        """Time of the last look at a process whose looks have long found the same."""
        self.attended: int | None = None
        """The process the user looks at."""
        self.untold: dict[int, int] = {}
        """Ranks that are now in a place where few looks have found them, with the number of those looks (`spots`)."""
        self.pending = False
        """More processes are due than one round may look at: the next round should follow at once."""

    def look_now(self) -> None:
        """Everything is due in the next round."""
        self._all_due = True
        self._budget.fill(len(self._table.living))

    def due(self, now: float) -> list[int]:
        """Pids to look at in this round, the most informative first."""
        self._budget.earn(now)
        was_first, self._is_first = self._is_first, False
        if was_first:
            self._budget.fill(len(self._table.living))
        if was_first and not self._eager:
            # The first picture of a screen shows processes only, and at once.
            return []
        candidates = sorted(self._activity.moved & self._table.living)
        self._note_rests(candidates, now)
        someone_stands = not self._table.living <= self._activity.awake
        due = [pid for pid in candidates if self._is_due(pid, now, someone_stands)]
        due.sort(key=self._order)
        urgent = [pid for pid in due if self._is_urgent(pid)]
        again = [pid for pid in due if not self._is_urgent(pid)]
        return [*urgent, *again[:PER_ROUND]] if self._eager else self._affordable(urgent, again, now)

    def _affordable(self, urgent: Sequence[int], again: Sequence[int], now: float) -> list[int]:
        allowed = min(max(PER_ROUND, len(self._table.living) // ROUNDS), int(self._budget.left))
        self.pending = len(urgent) > allowed and self._budget.left - allowed >= 1
        self._all_due = self._all_due and self.pending
        over = [pid for pid in again if self._rests.get(pid) is _Rest.OVER]
        in_turn = [pid for pid in again if pid not in over and self._budget.left >= self._least_left(pid)]
        soon = [pid for pid in in_turn if self._is_soon(pid)]
        later = [pid for pid in in_turn if not self._is_soon(pid)] if now >= self._turn_at + TURN_S else []
        self._turn_at = now if later else self._turn_at
        return [*urgent, *[*over, *soon][:AGAIN_PER_ROUND], *later[:1]][:allowed]

    def _is_soon(self, pid: int) -> bool:
        """Whether another look at a process that goes on as before need not wait for its turn."""
        is_few = len(self._table.living) <= CROWD
        return is_few or pid in self.untold or self._looks[pid].interval_s <= WOKEN_INTERVAL_S

    def _least_left(self, pid: int) -> float:
        """Budget needed for another look at this process: knowing what ranks do is worth a part of the reserve."""
        return RESERVE * (FOR_OTHERS if pid in self.untold else 1)

    def _is_urgent(self, pid: int) -> bool:
        """Whether a look would show something new; a repeated look can wait for its turn."""
        is_new = pid not in self._looks or self._rests.get(pid) is _Rest.NEW
        return self._all_due or is_new or pid == self.attended

    def _is_due(self, pid: int, now: float, someone_stands: bool) -> bool:  # noqa: FBT001  a fact
        look = self._looks.get(pid)
        if look is None or (self._all_due and look.at < now - FIRST_INTERVAL_S):
            return True
        if self._rests.get(pid) in (_Rest.NEW, _Rest.OVER) or pid in self.untold:
            return True
        if now < look.at + self._interval(pid, look) * NEARLY:
            return False
        return self._eager or someone_stands or pid == self.attended

    def _interval(self, pid: int, look: Look) -> float:
        """Seconds between two looks. A process back in a call it was seen in before has nothing new to show."""
        if self._eager:
            return FIRST_INTERVAL_S
        if self._budget.left < RESERVE / 2 and pid not in self._rests:
            return max(look.interval_s, SPARING_INTERVAL_S)
        if pid == self._table.root_pid:
            return min(look.interval_s, ROOT_INTERVAL_S)
        return LONGEST_INTERVAL_S if self._only_main_naps(pid) else look.interval_s

    def _only_main_naps(self, pid: int) -> bool:
        """Whether the main thread rests where it was seen to rest, and looks cover all that other threads did."""
        return pid in self._rests and not self._activity.only_others_ran(pid)

    def _order(self, pid: int) -> tuple[int, float]:
        look = self._looks.get(pid)
        if pid == self.attended:
            return 0, 0.0
        if pid == self._table.root_pid:
            return 1, 0.0
        if look is None:
            return 2, 0.0
        return (3, self.untold[pid]) if pid in self.untold else (4, look.at)

    def _note_rests(self, candidates: Sequence[int], now: float) -> None:
        """Note which processes have come to rest, and where: one cheap read of the main thread's system call shows it.

        If a process rests in a new call, something may have begun, so running processes are soon looked at again too.
        """
        resting = [pid for pid in candidates if pid in self._looks and self._activity.rests(pid, now)]
        self._rests = {pid: self._rest(pid, now) for pid in resting}
        if _Rest.NEW in self._rests.values():
            for pid, look in self._looks.items():
                if not self._activity.rests(pid, now) or self._activity.only_others_ran(pid):
                    look.interval_s = min(look.interval_s, WOKEN_INTERVAL_S)

    def _rest(self, pid: int, now: float) -> _Rest:
        call, known = self._table.main_call(pid), self._looks[pid].known_calls
        if call not in known:
            return _Rest.NEW
        is_back = call == known[0] or not self._activity.rests(pid, now, RESTS_LONG_S)
        return _Rest.AGAIN if is_back else _Rest.OVER
