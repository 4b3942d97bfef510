"""No score gets worse unseen, and one that got better stays so.

`noted.toml` holds the numbers of today, each of something that should not be, so that less is better.  A test fails when the
number is another one:

- it is worse: a rule or an edge was made for a single hang, wants what another rule has, or names its own suspects where
  the graph should.  Find the mechanism.  A new recording may make a number worse that was too good before, because nothing
  had shown it; then write the new number down and say so in the commit.
- it is better: write the new number down.  Else the next change could lose again what this one has won.

`python -m tests.scores --misses` names the cases behind each number.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest

from mpmon.diagnosis.rules import RULES, Rule
from tests.nodes import recorded
from tests.nodes.recorded import last
from tests.scores.replay import hangs
from tests.scores.scores import Score, scores

NOTED = msgspec.toml.decode((Path(__file__).parent / "noted.toml").read_bytes(), type=dict[str, float])


@pytest.fixture(scope="module")
def today() -> dict[str, Score]:
    return {score.name: score for score in scores()}


def test_every_score_is_noted(today: dict[str, Score]) -> None:
    assert list(today) == list(NOTED)


@pytest.mark.parametrize("name", NOTED)
def test_a_score_is_as_noted(name: str, today: dict[str, Score]) -> None:
    score, noted = today[name], NOTED[name]
    says = f"{name}: {score.bad:g} {score.means}, noted are {noted:g}"
    assert score.bad <= noted, "\n  ".join([says, *score.misses])
    assert score.bad >= noted, f"{says}: that is better, so write {score.bad:g} in noted.toml"


def test_the_rules_in_their_own_order_find_what_the_diagnosis_finds() -> None:
    """The scores judge the diagnosis that is told, and not another one."""
    for hang in hangs():
        assert hang.finding.cause in {stuck.winner(RULES) for stuck in hang.stuck}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CAUSE)
def test_a_rule_wins_in_a_recording(rule: Rule) -> None:
    wins = any(stuck.winner(RULES) == rule.CAUSE for hang in hangs() for stuck in hang.stuck)
    assert wins or rule.CAUSE in on_one_of_several_machines()


@cache
def on_one_of_several_machines() -> frozenset[str]:
    """The causes that are found in recordings of one machine of a larger job."""
    found = (last(path).diagnosis.findings for case in recorded.CASES for path in recorded.recordings(case))
    return frozenset(finding.cause for findings in found for finding in findings)
