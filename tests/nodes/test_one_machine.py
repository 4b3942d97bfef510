"""What is said of a larger job by who sees one of its machines."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Verdict
from tests.nodes.recorded import CASES, last, recordings


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("place", [0, 2])
def test_a_machine_that_waits_for_another_blames_nobody(case: str, place: int) -> None:
    found = last(recordings(case)[place]).diagnosis
    assert found.verdict is Verdict.HUNG
    (finding,) = found.findings
    assert (finding.cause, finding.suspects) == ("ranks-elsewhere", ())
    assert finding.summary.endswith("which run on other machines")


@pytest.mark.parametrize(
    ("case", "cause"), [("worker", "worker-stuck"), ("stop", "stopped"), ("mismatch", "ranks-elsewhere")]
)
def test_the_machine_that_keeps_the_others_waiting_says_so_where_that_shows(case: str, cause: str) -> None:
    found = last(recordings(case)[1]).diagnosis
    assert [finding.cause for finding in found.findings] == [cause]
