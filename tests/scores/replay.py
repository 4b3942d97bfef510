"""Every recorded hang, diagnosed once, with what each rule says of each stuck set, and not only what the first one says.

This is the only place of the scores that knows how the diagnosis is made: it runs the real engine and looks in at two points,
the stuck sets that it ranks and the lines of the rules that make a claim.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from mpmon.diagnosis import History, engine
from mpmon.diagnosis.findings import Finding, Suspect
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.responsibility import responsible
from mpmon.diagnosis.rules import RULES, Rule
from mpmon.session.recording import read_recording
from tests.hangs.expected import Expected, cases, read_expected

Order = tuple[Rule, ...]


class Answer(msgspec.Struct, frozen=True):
    """What one rule says of one stuck set."""

    claim: Claim
    site: str
    """The line that made it: `queue_empty.py:78`."""


class Stuck(msgspec.Struct, frozen=True):
    """A closed set that has stood for long enough, and all who claim it."""

    knot: Knot
    answers: dict[str, Answer]
    """By the cause of the rule; rules that do not claim it are left out."""

    def winner(self, order: Order) -> str:
        """The cause that is found when the rules are asked in this order."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "RULES", tuple(_Repeats(rule, self.answers.get(rule.CAUSE)) for rule in order))
            return engine._claim(self.knot)[0]

    def roots(self) -> tuple[Suspect, ...]:
        """Who must move first by the structure of the graph alone."""
        return responsible(self.knot)


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

    def claim(self, knot: Knot) -> Claim | None:
        return self._answer.claim if self._answer else None


class _Noted:
    """`Claim`, with the line that made the last one."""

    def __init__(self) -> None:
        self.site = ""

    def __call__(self, **fields: object) -> Claim:
        caller = sys._getframe(1)
        self.site = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
        return Claim(**fields)


@cache
def hangs() -> tuple[Hang, ...]:
    """All recordings of which the truth is that they hang."""
    return tuple(_replayed(case) for case in cases() if read_expected(case).hangs)


def _replayed(case: Path) -> Hang:
    history = History()
    for snapshot in read_recording(case / "recording.jsonl.gz"):
        history = history.add(snapshot)
    ripe: list[Knot] = []
    ranked = engine._ranked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_ranked", lambda knots: ripe.extend(knots) or ranked(knots))
        finding = engine.diagnose(history).findings[0]
        noted = _Noted()
        for rule in RULES:
            patch.setattr(rule, "Claim", noted)
        stuck = tuple(Stuck(knot, _answers(knot, noted)) for knot in ripe)
    return Hang(case.name, read_expected(case), finding, stuck)


def _answers(knot: Knot, noted: _Noted) -> dict[str, Answer]:
    claims = ((rule.CAUSE, rule.claim(knot)) for rule in RULES)
    return {cause: Answer(claim, noted.site) for cause, claim in claims if claim}
