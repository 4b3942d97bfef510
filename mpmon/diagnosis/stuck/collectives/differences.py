"""How ranks that wait for each other in collectives may differ, and what the numbers of their Flight Recorders say."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import Enum

import msgspec

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.humanize import runs, several
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.links import stalls
from mpmon.diagnosis.stuck.stuck_set import StuckSet


class Numbered(msgspec.Struct, frozen=True):
    """What the numbers of the Flight Recorders say about a stuck set."""

    odd: tuple[ThreadKey, ...] = ()
    """The ranks that are behind or called something else than most; empty if the numbers do not tell."""
    evidence: tuple[str, ...] = ()
    exact: bool = False
    """The numbers leave nothing to guess, about the ranks in `odd` included."""

    @property
    def certainty(self) -> Certainty:
        """The strongest certainty that may be claimed."""
        return Certainty.PROVED if self.exact else Certainty.LIKELY


def numbered(stuck: StuckSet) -> Numbered:
    """The ranks that are behind or diverged, by sequence numbers; empty if there are no numbers."""
    numbers, members = stuck.job.numbers, sorted({pid for pid, _ in stuck.closed.core})
    lags = {pid: lag for pid in members if (lag := numbers.lag(pid))}
    if lags:
        targets = [target for lag in lags.values() for target in lag.targets if isinstance(target, tuple)]
        evidence = tuple(dict.fromkeys(lag.words for lag in lags.values()))
        if any(pid in lags for pid, _ in targets):
            # They wait for each other in different groups: none of them is the odd one.
            return Numbered((), evidence, exact=all(lag.exact for lag in lags.values()))
        # What they themselves wait in is known from frames only.
        return Numbered(tuple(dict.fromkeys(targets)), evidence)
    clash = next((clash for pid in members if (clash := numbers.clash(pid))), None)
    if clash is None:
        return Numbered()
    odd = tuple((pid, pid) for pid in clash.odd())
    return Numbered(odd, clash.words, exact=clash.exact and bool(odd))


def operations(stuck: StuckSet) -> dict[str, list[ThreadKey]]:
    """The ranks of a stuck set by the operation they wait in; empty unless they wait for each other in collectives.

    If data between them was lost, the operations tell nothing: a rank may have received its part of an operation that
    another still waits in.
    """
    if not stuck.is_mutual or stalls(stuck):
        return {}
    groups: dict[str, list[ThreadKey]] = {}
    for key in sorted(key for key in stuck.closed.core if stuck.wait_state(key).kind is Wait.COLLECTIVE):
        groups.setdefault(stuck.wait_state(key).operation, []).append(key)
    return groups


class Differs(Enum):
    """How some ranks differ from the others."""

    GONE_ON = "it is in a collective, and most others wait for it point to point"
    DIRECTION = "all of them send, or all receive"
    PAIR = "one sends to the other, which receives from it, and the two do not meet: they count differently"
    KEY = "they have passed the place at which they were to set a key for most"
    ELSEWHERE = "they wait for what only those in the collective could bring"
    KEEPS_LOCK = "they have a lock that those wait for who are not in the collective, or whoever answers these"
    STRANGER = (
        "they wait for a process that is no rank, and waits for those in the collective; or most wait so for these"
    )
    LEFT_BACKWARD = "they do not reduce gradients as the others do"
    UNMET = "they send to, or receive from, a rank in a collective, while another one wants to do that with them"
    OPERATION = "they are in another operation"
    NUMBER = "their numbers, sizes or types show that it is another operation of the same name"
    NAME = "they call the group that all make by another name, since they have made more groups, or fewer"
    ROOT = "they name another root"
    GROUP = "they came with another group"
    ARGUMENT = "they have another value at hand"
    THREADS = "two threads of them are in collectives, which a group takes in one order only"
    LINE = "they came there from another line"


class Split(msgspec.Struct, frozen=True):
    """Ranks of a set that do something else than the others."""

    how: Differs
    odd: tuple[ThreadKey, ...]
    groups: dict[str, list[ThreadKey]]
    """By operation; for LINE, by place."""
    name: str = ""
    """For ROOT and ARGUMENT, the name of the argument or variable; for DIRECTION and PAIR, the variable in which one rank
    differs, if any; else the operation that all are in.
    """
    others: tuple[ThreadKey, ...] = ()
    """The ranks that wait for these; for DIRECTION and PAIR, all that do not meet."""
    numbers: Numbered = Numbered()
    why: str = ""
    """Why these, if a comparison of the ways of both tells: `rank 1 is in turn 6, rank 0 in turn 5 of the loop at job.py:30`."""

    @property
    def few_first(self) -> list[tuple[str, list[ThreadKey]]]:
        """The groups, the largest last."""
        return sorted(self.groups.items(), key=lambda row: len(row[1]))

    @property
    def all(self) -> frozenset[ThreadKey]:
        """The ranks in any of the groups."""
        return frozenset(itertools.chain(*self.groups.values()))


def names_of(stuck: StuckSet, keys: Sequence[ThreadKey]) -> str:
    """`rank 2`, `ranks 0-1 and 3`."""
    numbers = [number for key in keys if (number := stuck.job.role(key[0]).rank) is not None]
    if len(keys) > 1 and len(set(numbers)) == len(keys):
        return f"ranks {runs(numbers)}"
    return several([stuck.job.role(key[0]).name for key in keys], most=len(keys))
