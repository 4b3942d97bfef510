"""Which ranks torchrun started last: ranks of an earlier start may be left over, on this machine or another.

TORCHELASTIC_RESTART_COUNT alone does not tell. Each agent counts only the failures of its own ranks (`_invoke_run` of
torch/distributed/elastic/agent/server/api.py: "membership changes do not count as retries"), so after a rank has failed
on one of two machines, ranks of the same start say 1 there and 0 here. Nor does the port tell: it stays as long as rank
0 stays on its machine (dynamic_rendezvous.py). What does tell:

- of one agent's child ranks, those with the lower count are older;
- ranks with different rendezvous addresses or world sizes belong to different starts; those with the lower count are
  older;
- each rank exists once: of two at the same rendezvous, the one started later is the rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from mpmon.model import Process
from mpmon.numerals import numeral

_Place = tuple[str, ...]
"""The rendezvous of the ranks, and how many there are."""


class Start(NamedTuple):
    """What a process knows about the start it belongs to."""

    run: str
    meets: _Place
    failures: int
    """How often its agent had restarted its ranks because one had failed."""
    rank: str


class Starts:
    """The starts that living ranks belong to."""

    def __init__(self, ranks: Iterable[Process]) -> None:
        self._of_agent: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._of_place: defaultdict[str, dict[_Place, int]] = defaultdict(dict)
        self._twins: defaultdict[tuple[str, _Place, str], list[Process]] = defaultdict(list)
        for row in ranks:
            if start := start_of(row):
                counts = self._of_place[start.run]
                self._of_agent[start.run, row.ppid] = max(start.failures, self._of_agent[start.run, row.ppid])
                counts[start.meets] = max(start.failures, counts.get(start.meets, 0))
                self._twins[start.run, start.meets, start.rank].append(row)

    def is_earlier(self, row: Process) -> bool:
        """It belongs to a start that is not the last of its run."""
        start = start_of(row)
        if start is None:
            return False
        elsewhere = (most for place, most in self._of_place[start.run].items() if place != start.meets)
        least = max(self._of_agent[start.run, row.ppid], *elsewhere, 0)
        twins = self._twins[start.run, start.meets, start.rank]
        return start.failures < least or any(_replaces(other, row) for other in twins)


def _replaces(other: Process, row: Process) -> bool:
    """A rank's own child inherits its number, and replaces nothing."""
    return other.start_time > row.start_time and (other.host != row.host or other.ppid == row.ppid)


def start_of(row: Process) -> Start | None:
    """`None` for processes that torchrun did not start."""
    kept = row.environment or {}
    if "TORCHELASTIC_RUN_ID" not in kept:
        return None
    return Start(
        run=kept["TORCHELASTIC_RUN_ID"],
        meets=tuple(kept.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")),
        failures=numeral(kept.get("TORCHELASTIC_RESTART_COUNT", "")) or 0,
        rank=kept.get("RANK", ""),
    )
