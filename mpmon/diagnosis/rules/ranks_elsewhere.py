"""Ranks wait for ranks on other machines, about which mpmon has no data.

What it looks like: all ranks of this machine are in a collective or in the rendezvous, and the job has more ranks.
Why: one of the other ranks is late, stuck or dead, or its data did not arrive. From this machine, all of these look the same.
What to do: look at all machines at once: `mpmon explain many-nodes`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending, External
from mpmon.diagnosis.humanize import ranges, several, verb
from mpmon.diagnosis.stacks.waits import AMONG_RANKS
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.links import stalls
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.spans import spans

CAUSE = "ranks-elsewhere"
NEEDS = frozenset({"stacks", "processes"})

MOST_PLACES = 8
"""Most places listed as evidence."""


def match(stuck: StuckSet) -> Match | None:
    """The chain ends in ranks of the job about which there is no data."""
    if stuck.ending is not Ending.EXTERNAL or stuck.outside is None or not stuck.outside.of_job:
        return None
    if stalls(stuck):
        return None
    waiting = _waiting(stuck)
    if not waiting:
        return None
    who = several([end.who for end in stuck.closed.root_blockers if isinstance(end, External)])
    silent = [f"{row.host} {row.problem}" for row in stuck.job.snapshot.nodes if row.problem]
    return Match(
        summary=f"{_names(stuck, waiting)} {verb(len(waiting), 'wait')} for {who}",
        evidence=(*_places(stuck, waiting), *silent),
        advice=(_SILENT,) if silent else (_TOGETHER, _BY_HAND),
        certainty=Certainty.LIKELY,
    )


_TOGETHER = (
    "No process here is known to be the cause: look at all machines of the job at once (mpmon explain many-nodes)."
)
_BY_HAND = (
    "On each machine: mpmon PID --once --record NAME.jsonl.gz; then, with all these files: mpmon --replay FILE FILE ..."
)
_SILENT = "Check whether those machines are up, and what runs on them: nothing else shows why their ranks are missing."


def _waiting(stuck: StuckSet) -> list[ThreadKey]:
    """The visible ranks that wait for others, including those outside the stuck set."""
    members = stuck.members_in(*AMONG_RANKS)
    ranks = [(pid, pid) for pid in stuck.job.ranks if stuck.wait_state((pid, pid)).kind in AMONG_RANKS]
    return ranks if any(key in ranks for key in members) else members


def _names(stuck: StuckSet, keys: list[ThreadKey]) -> str:
    numbers = [stuck.job.role(key[0]).rank for key in keys]
    known = [number for number in numbers if number is not None]
    return ranges(spans(known)) if len(known) == len(keys) else stuck.job.names(keys)


def _places(stuck: StuckSet, keys: list[ThreadKey]) -> list[str]:
    """What the ranks wait in and at which line, grouped by both."""
    alike: dict[str, list[ThreadKey]] = {}
    for key in keys:
        alike.setdefault(f"{stuck.wait_state(key).words}{stuck.at(key)}", []).append(key)
    return [f"{_names(stuck, found)}: {place}" for place, found in alike.items()][:MOST_PLACES]
