"""Every recorded hang, diagnosed once, with what each rule says of each stuck set, and not only what the first one says.

This is the only place of the scores that knows how the diagnosis is made: it runs the real engine and looks in at two points,
the stuck sets that it ranks and the lines of the rules that match.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from mpmon.diagnosis import History, Memo, engine
from mpmon.diagnosis.explanation import explain
from mpmon.diagnosis.findings import Diagnosis, Finding, Suspect
from mpmon.diagnosis.responsibility import OF_EACH_OTHER, of_the_end, responsible
from mpmon.diagnosis.rules import RULES, Rule
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.model import Snapshot
from mpmon.session.recording import read_recording
from tests.hangs.expected import Expected, cases, read_expected

Order = tuple[Rule, ...]


class Answer(msgspec.Struct, frozen=True):
    """What one rule says of one stuck set."""

    match: Match
    site: str
    """The line that made it: `queue_empty.py:78`."""


class Stuck(msgspec.Struct, frozen=True):
    """A closed set that has stood for long enough, and all that match it."""

    stuck: StuckSet
    answers: dict[str, Answer]
    """By the cause of the rule; rules that do not match it are left out."""

    def winner(self, order: Order) -> str:
        """The cause that is found when the rules are asked in this order."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(explain, "RULES", tuple(_Repeats(rule, self.answers.get(rule.CAUSE)) for rule in order))
            return explain.cause_of(self.stuck)[0]

    def root_blockers(self) -> tuple[Suspect, ...]:
        """Who must move first by the structure of the graph alone."""
        return responsible(self.stuck)

    def blamed(self) -> dict[str, frozenset[ThreadKey]]:
        """Who is responsible by each of the ways of those that wait for each other, by the names of the functions; empty if
        the end of the chain tells it.
        """
        if of_the_end(self.stuck) is not None:
            return {}
        found = {who.__name__: frozenset(who(self.stuck)) for who in OF_EACH_OTHER}
        return {name: keys for name, keys in found.items() if keys}


class Hang(msgspec.Struct, frozen=True):
    """One recorded hang."""

    name: str
    expected: Expected
    finding: Finding
    """The first."""
    stuck: tuple[Stuck, ...]


class _Repeats:
    """A rule that says again what it said."""

    def __init__(self, rule: Rule, answer: Answer | None) -> None:
        self.CAUSE = rule.CAUSE
        self._answer = answer

    def match(self, stuck: StuckSet) -> Match | None:
        return self._answer.match if self._answer else None


class _Noted:
    """`Match`, with the line that made the last one."""

    def __init__(self) -> None:
        self.site = ""

    def __call__(self, **fields: object) -> Match:
        caller = sys._getframe(1)
        self.site = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
        return Match(**fields)


@cache
def hangs() -> tuple[Hang, ...]:
    """All recordings of which the truth is that they hang."""
    return tuple(_replayed(case) for case in cases() if read_expected(case).hangs)


def _replayed(case: Path) -> Hang:
    history = History()
    for snapshot in read_recording(case / "recording.jsonl.gz"):
        history = history.add(snapshot)
    ripe: list[StuckSet] = []
    ranked = engine.ranked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "ranked", lambda stuck_sets: ripe.extend(stuck_sets) or ranked(stuck_sets))
        finding = engine.diagnose(history).findings[0]
        noted = _Noted()
        for rule in RULES:
            patch.setattr(rule, "Match", noted)
        stuck = tuple(Stuck(stuck, _answers(stuck, noted)) for stuck in ripe)
    return Hang(case.name, read_expected(case), finding, stuck)


class Said(msgspec.Struct, frozen=True):
    """What the diagnosis says at one moment of a recording."""

    verdict: str
    cause: str = ""
    """Of the first finding."""
    suspects: frozenset[int] = frozenset()
    """Pids."""


def said(case: Path) -> tuple[Said, ...]:
    """At the end of a recording; of a job that does not hang at each moment, since none must be taken for a hang."""
    history, memory, told = History(), Memo(), []
    snapshots = _snapshots(case)
    watched = not read_expected(case).hangs
    for snapshot in snapshots:
        history = history.add(snapshot)
        if watched or snapshot is snapshots[-1]:
            told.append(_said(engine.diagnose(history, memory)))
    return tuple(told)


def _said(diagnosis: Diagnosis) -> Said:
    if not diagnosis.findings:
        return Said(diagnosis.verdict.value)
    first = diagnosis.findings[0]
    return Said(diagnosis.verdict.value, first.cause, frozenset(row.pid for row in first.suspects))


@cache
def _snapshots(case: Path) -> tuple[Snapshot, ...]:
    return tuple(read_recording(case / "recording.jsonl.gz"))


def _answers(stuck: StuckSet, noted: _Noted) -> dict[str, Answer]:
    matches = ((rule.CAUSE, rule.match(stuck)) for rule in RULES)
    return {cause: Answer(match, noted.site) for cause, match in matches if match}
