"""How sure a finding is: every one that is not proved says why, and no proved one has a doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Certainty, Finding
from tests.diagnosis.test_invariance import diagnosed
from tests.hangs.expected import cases

CASES = {case.name: case for case in cases()}


def first(name: str) -> Finding:
    return diagnosed(CASES[name]).findings[0]


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_what_is_not_proved_says_why_and_each_step_what_names_the_next(case: Path) -> None:
    for finding in diagnosed(case).findings:
        assert (finding.certainty is Certainty.PROVED) == (not finding.doubts)
        assumed = [link for link in finding.chain if link.basis == "assumed"]
        assert not (assumed and finding.certainty is Certainty.PROVED)
        assert any("is assumed" in doubt for doubt in finding.doubts) or not assumed


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("thread-lock-twice", {"memory"}),
        ("progress-beside-killed", {"ledger", None}),
        ("flock-twice-two-opens", {"kernel"}),
    ],
)
def test_a_proof_names_its_source(name: str, bases: set[str | None]) -> None:
    finding = first(name)
    assert finding.certainty is Certainty.PROVED
    assert {link.basis for link in finding.chain} == bases


def test_a_cycle_with_a_time_limit_is_not_proved() -> None:
    finding = first("p2p-send-send")
    assert finding.certainty is Certainty.LIKELY
    assert any("time limit" in doubt for doubt in finding.doubts)
