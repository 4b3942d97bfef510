"""Ranks wait for ranks that run on machines of which nothing is known here.

What it looks like: all ranks of this machine stand in a collective or in the rendezvous, and the job has more ranks.
Why: one of the others is late, stuck or dead, or what it sent did not arrive. Seen from here, whoever is to blame, it all
looks the same.
What to do: look at all machines at once: `mpmon explain many-nodes`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Outside
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.links import stalls
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import ranges, several
from mpmon.spans import spans

CAUSE = "ranks-elsewhere"
NEEDS = frozenset({"stacks", "processes"})

_MEETING = (Wait.COLLECTIVE, Wait.RENDEZVOUS, Wait.STORE_KEY, Wait.REMOTE_END)

MOST_PLACES = 8
"""Places that are named."""


def claim(knot: Knot) -> Claim | None:
    """The chain ends in ranks of the job that are not at hand."""
    if knot.ending is not Ending.OUTSIDE or knot.outside is None or not knot.outside.of_job:
        return None
    if stalls(knot):
        return None
    waiting = _waiting(knot)
    if not waiting:
        return None
    who = several([end.who for end in knot.closed.roots if isinstance(end, Outside)])
    silent = [f"{row.host} {row.problem}" for row in knot.case.snapshot.nodes if row.problem]
    return Claim(
        summary=f"{_names(knot, waiting)} wait{'s' if len(waiting) == 1 else ''} for {who}",
        evidence=(*_places(knot, waiting), *silent),
        advice=(_SILENT,) if silent else (_TOGETHER, _BY_HAND),
        certainty=Certainty.LIKELY,
    )


_TOGETHER = "Nobody here is known to be to blame: look at all machines of the job at once (mpmon explain many-nodes)."
_BY_HAND = (
    "On each machine: mpmon PID --once --record NAME.jsonl.gz; then, with all these files: mpmon --replay FILE FILE ..."
)
_SILENT = "See whether those machines are up, and what runs on them: nothing else tells what keeps their ranks."


def _waiting(knot: Knot) -> list[ThreadKey]:
    """The ranks at hand that wait for others, whoever asks."""
    members = knot.members_in(*_MEETING)
    ranks = [(pid, pid) for pid in knot.case.ranks if knot.standing((pid, pid)).kind in _MEETING]
    return ranks if any(key in ranks for key in members) else members


def _names(knot: Knot, keys: list[ThreadKey]) -> str:
    numbers = [knot.case.role(key[0]).rank for key in keys]
    known = [number for number in numbers if number is not None]
    return ranges(spans(known)) if len(known) == len(keys) else several([knot.case.role(key[0]).name for key in keys])


def _places(knot: Knot, keys: list[ThreadKey]) -> list[str]:
    """In what they stand and where, those together that stand alike."""
    alike: dict[str, list[ThreadKey]] = {}
    for key in keys:
        alike.setdefault(f"{knot.standing(key).words}{knot.at(key)}", []).append(key)
    return [f"{_names(knot, found)}: {place}" for place, found in alike.items()][:MOST_PLACES]
