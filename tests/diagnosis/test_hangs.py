"""Every recorded hang is diagnosed as it was in truth, and no job that works is ever said to hang."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Finding, Observation, Suspect, Verdict
from mpmon.session.watch import ReplayWatch
from tests.hangs.expected import Expected, cases, read_expected

CASES = cases()
TWICE = re.compile(r"(\(pid [0-9]+\)) \1")
"""A name that is told apart by its pid already, and is given it once more."""

CALM = [case for case in CASES if not read_expected(case).hangs]


def observations(case: Path) -> list[Observation]:
    return list(ReplayWatch(case / "recording.jsonl.gz", at_once=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_case(case: Path) -> None:
    expected = read_expected(case)
    last = observations(case)[-1]
    if not expected.hangs:
        assert last.diagnosis.verdict is not Verdict.HUNG, last.diagnosis.because
        return
    assert last.diagnosis.verdict is Verdict.HUNG, last.diagnosis.because
    finding = last.diagnosis.findings[0]
    assert finding.cause in expected.causes
    blamed = [frozenset(row.suspects) for row in last.diagnosis.findings if row.suspects]
    assert len(blamed) == len(set(blamed)), "two findings blame the same threads"
    check_suspects(finding, expected)
    check_lines(finding, expected)
    check_roles(finding, expected)
    assert not TWICE.search(finding.summary)


@pytest.mark.parametrize("case", CALM, ids=lambda case: case.name)
def test_no_beginning_of_a_calm_recording_hangs(case: Path) -> None:
    hung = [row.diagnosis.because for row in observations(case) if row.diagnosis.verdict is Verdict.HUNG]
    assert hung == []


def check_suspects(finding: Finding, expected: Expected) -> None:
    """Those who must move first, all of them where every one counts, and nobody else."""
    named = {suspect.pid for suspect in finding.suspects}
    if expected.forgotten:
        assert not named, finding.summary
        return
    assert named, finding.summary
    assert named <= set(expected.suspects), finding.summary
    assert {suspect.pid for suspect in finding.suspects if suspect.dead} == named & set(expected.dead)
    if expected.every_suspect:
        assert named == set(expected.suspects)
    assert not named & {waiter.pid for waiter in finding.waiters}


def check_lines(finding: Finding, expected: Expected) -> None:
    alive = [suspect for suspect in finding.suspects if not suspect.dead]
    if not expected.lines or not alive:
        return
    places = [_place(suspect) for suspect in alive]
    assert any(line in expected.lines.get(file, ()) for file, line in places), (places, expected.lines)


def check_roles(finding: Finding, expected: Expected) -> None:
    """Of the living; of one that ended before mpmon came nothing is left that would tell."""
    said = {suspect.pid: _role(_without_rank(suspect)) for suspect in finding.suspects if not suspect.dead}
    assert said == {pid: _role(expected.roles.get(str(pid), "")) for pid in said}


def _without_rank(suspect: Suspect) -> str:
    """A worker is told with the rank it works for where another rank has one of that name."""
    return suspect.role.removesuffix(f" of rank {suspect.rank}")


def _role(name: str) -> str:
    """What a job calls its processes, and how it numbers the workers of its pools, is its own affair."""
    if name.startswith("child "):
        return "process"
    own = next((kind for kind in ("process", "pool worker", "subprocess") if name.startswith(f"{kind} ")), None)
    return own or ("main" if name == "launcher" else name)


def _place(suspect: Suspect) -> tuple[str, int]:
    frame = suspect.frame
    return (Path(frame.file).name, frame.line) if frame else ("", 0)
