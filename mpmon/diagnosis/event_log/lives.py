"""Processes that started and processes that ended.

A start is reported once the role of the process is known, after a sample or two; if the process ends earlier, start and end
are reported together. Processes of one kind that start or end in the same round, and in the same way, are reported together.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from mpmon.diagnosis.edges.deaths import did, exit_words, returncode_words
from mpmon.diagnosis.findings import Diagnosis, Event, ProcessView
from mpmon.diagnosis.humanize import runs, several
from mpmon.diagnosis.memo import others
from mpmon.diagnosis.roles.role import MAIN, RANK
from mpmon.model import PIDS_OF_A_HOST, Process, Snapshot

SETTLES_S = 3.0
"""After this time a process is reported even if its role is still vague."""

VAGUE = frozenset({"subprocess", "other", MAIN})
"""Kinds that a later sample may refine; so are ranks without a number, and children whose function is not known."""

NOT_SEEN = "ended (how was not observed)"

MOST_RANKS = 4096
"""How many roles of ended ranks are remembered."""

Key = tuple[int, float]
"""(pid, start time)."""


class Known(msgspec.Struct, frozen=True, gc=False):
    """A process that was observed."""

    pid: int
    role: str
    kind: str
    parent: int | None
    first_at: float
    told: bool
    vague: bool = False
    """A later sample may show it to be something else."""
    ended: bool = False
    """Its end was reported."""


class End(msgspec.Struct, frozen=True, gc=False):
    """How a process ended."""

    who: Known
    how: str
    """`was killed by SIGKILL (9)`."""
    bad: bool
    """It was killed, or ended with an error."""
    asked: bool = False
    """It was killed by a signal that asks to end, as launchers send to the others when one has failed."""


class Lives:
    """All processes that were observed and have not ended. `add` returns a new one."""

    def __init__(self) -> None:
        self._known: dict[Key, Known] | None = None
        self._seen: tuple[tuple[Process, ...], tuple[ProcessView, ...]] = ((), ())
        """Processes and their views in the last round."""
        self._is_settled = False
        """All of them were reported."""
        self._hosts: frozenset[int] = frozenset()
        """Numbers of the machines that were sampled."""
        self._last_ranks: frozenset[str] = frozenset()
        """Roles of ranks of which a process has ended."""

    def add(self, snapshot: Snapshot, diagnosis: Diagnosis) -> tuple[Lives, list[Event]]:
        """The same with one more round added, and the events of that round."""
        new = Lives()
        new._seen = snapshot.processes, diagnosis.processes
        if self._is_settled and _says_the_same(self._seen, new._seen):
            new._known, new._hosts, new._last_ranks, new._is_settled = self._known, self._hosts, self._last_ranks, True
            return new, []
        before = self._known or {}
        views = {view.pid: view for view in diagnosis.processes}
        hosts = {0, *(node.number for node in snapshot.nodes if node.taken_at is not None)}
        new._hosts = self._hosts | hosts
        # Processes of a machine that is not sampled in this round have not ended.
        new._known = {key: who for key, who in before.items() if who.pid // PIDS_OF_A_HOST not in hosts}
        for row in snapshot.processes:
            if snapshot.nodes and row.pid == snapshot.root_pid:
                continue  # the artificial root that joins the trees of the machines, not a process
            first = row.pid // PIDS_OF_A_HOST not in self._hosts
            view = views.get(row.pid)
            new._known[row.key] = _updated(before.get(row.key), row, view, snapshot.taken_at, first=first)
        ends = [*_zombies(snapshot, new._known), *_vanished(snapshot, before, new._known)]
        ranks = {end.who.role for end in ends if end.who.kind == RANK}
        new._last_ranks = self._last_ranks | ranks if len(self._last_ranks) < MOST_RANKS else self._last_ranks
        born = [who for who in new._known.values() if _is_news(who, snapshot.taken_at)]
        for key, who in new._known.items() if born or ends else ():
            new._known[key] = _told(who, {w.pid for w in born}, {e.who.pid for e in ends})
        new._is_settled = all(who.told for who in new._known.values())
        return new, [
            *_ends(_first_to_fail(ends), snapshot.taken_at),
            *_births(born, new._last_ranks, snapshot.taken_at),
        ]


_Seen = tuple[tuple[Process, ...], tuple[ProcessView, ...]]


def _says_the_same(before: _Seen, now: _Seen) -> bool:
    """The same processes exist, none has ended since, and their names, roles and parents are unchanged."""
    processes, views = others(before[0], now[0]), others(before[1], now[1])
    if processes is None or views is None:
        return False
    return all((a.key, a.name, a.ended) == (b.key, b.name, b.ended) for a, b in processes) and all(
        (a.pid, a.role, a.parent) == (b.pid, b.role, b.parent) for a, b in views
    )


def _updated(known: Known | None, process: Process, view: ProcessView | None, now: float, *, first: bool) -> Known:
    view = view or ProcessView(pid=process.pid, role="subprocess", kind="subprocess", parent=process.ppid)
    role = f"subprocess {process.name}" if view.role == "subprocess" else view.role
    vague = not view.target_known or view.kind in VAGUE or (view.kind == RANK and view.rank is None)
    if known is None:
        # Processes found when mpmon starts did not start now, and zombies found then did not end now.
        ended = first and process.ended
        return Known(process.pid, role, view.kind, view.parent, now, told=first, vague=vague, ended=ended)
    if (known.role, known.vague) == (role, vague):
        return known
    return msgspec.structs.replace(known, role=role, kind=view.kind, parent=view.parent, vague=vague)


def _is_news(who: Known, now: float) -> bool:
    return not who.told and not who.ended and (not who.vague or now - who.first_at >= SETTLES_S)


def _told(who: Known, born: set[int], ended: set[int]) -> Known:
    if who.pid in ended:
        return msgspec.structs.replace(who, told=True, ended=True)
    return msgspec.structs.replace(who, told=True) if who.pid in born else who


# How they ended

_ASKS = frozenset({signal.SIGTERM, signal.SIGINT})


def _zombies(snapshot: Snapshot, known: dict[Key, Known]) -> Iterator[End]:
    for process in snapshot.processes:
        if process.ended and not known[process.key].ended:
            yield _end(known[process.key], process.exit_code)


def _vanished(snapshot: Snapshot, before: dict[Key, Known], now: dict[Key, Known]) -> Iterator[End]:
    gone = [(key, before[key]) for key in before.keys() - now.keys() if not before[key].ended]
    if not gone:
        return
    codes = {(row.pid, row.start_time): row.process.exit_code for row in snapshot.exits}
    returned = {row.child: row.returncode for row in snapshot.remembered if row.returncode is not None}
    for key, who in sorted(gone):
        returncode = returned.get(who.pid)
        if codes.get(key) is None and returncode is not None:
            yield End(who, did(returncode_words(returncode)), bad=returncode != 0, asked=-returncode in _ASKS)
        else:
            yield _end(who, codes.get(key))


def _end(who: Known, code: int | None) -> End:
    how = NOT_SEEN if code is None else did(exit_words(code))
    return End(who, how, bad=bool(code), asked=((code or 0) & 0x7F) in _ASKS)


def _first_to_fail(ends: list[End]) -> list[End]:
    """In the order in which they are likely to have ended since the last sample: who failed by itself, whoever started it,
    those that were asked to end.
    """
    starters = {end.who.parent for end in ends}
    return sorted(ends, key=lambda end: (not end.bad, end.asked, end.who.pid in starters))


# Words


def _births(born: list[Known], last_ranks: frozenset[str], at: float) -> Iterator[Event]:
    for again in (False, True):
        those = [who for who in born if (who.role in last_ranks) == again]
        for group in _groups(those, lambda who: (who.kind, who.parent)):
            said = f"{_names(group)} started{' again' if again else ''} ({_pids(group)})"
            yield _event("restarted" if again else "born", said, group, at)


def _ends(ends: list[End], at: float) -> Iterator[Event]:
    for group in _groups(ends, lambda end: (end.who.kind, end.who.parent, end.how, end.who.told)):
        whose = [end.who for end in group]
        came = "" if group[0].who.told else "started and "
        how = group[0].how
        if len(group) > 1 and how.startswith("was "):
            how = f"were {how[4:]}"
        said = f"{_names(whose)} ({_pids(whose)}) {came}{how}"
        yield _event("died", said, whose, at, bad=group[0].bad)


T = TypeVar("T")


def _groups(rows: list[T], alike: Callable[[T], object]) -> list[list[T]]:
    """Rows grouped by `alike`, in the order of each group's first member."""
    groups: dict[object, list[T]] = {}
    for row in rows:
        groups.setdefault(alike(row), []).append(row)
    return list(groups.values())


def _event(kind: str, said: str, group: list[Known], at: float, *, bad: bool = False) -> Event:
    return Event(at=at, kind=kind, summary=said, pids=tuple(who.pid for who in group), bad=bad)


def _names(group: list[Known]) -> str:
    return several([who.role for who in group])


def _pids(group: list[Known]) -> str:
    return f"pid{'s' if len(group) > 1 else ''} {runs(who.pid for who in group)}"
