"""What a hang rests on, and what is said where two readers have read it alike."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.explanation.basis import MOST_PROCESSES, basis
from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Link, Suspect, Verdict
from mpmon.model import BOTH, MPMON, Stack
from tests.builders import ROOT, START, blocked, diagnosed, process, snapshot, stack, thread

SUSPECT = Suspect(pid=7, role="worker", tid=9)
CHAIN = (Link(pid=5, role="main", does="waits"), Link(pid=7, role="worker", does="sleeps", thread="helper"))


def finding(*suspects: Suspect, chain: tuple[Link, ...] = CHAIN) -> Finding:
    return Finding(cause="worker-stuck", certainty=Certainty.LIKELY, summary="", suspects=suspects, chain=chain)


def hung(*findings: Finding) -> Diagnosis:
    return Diagnosis(verdict=Verdict.HUNG, findings=findings)


def test_a_hang_rests_on_suspects_and_the_chain() -> None:
    helper = Stack(pid=7, tid=11, thread_name="helper", taken_at=0.0, frames=())
    assert basis(hung(finding(SUSPECT)), snapshot(process(), helper)) == {7: {9, 11}, 5: {5}}


def test_what_is_dead_and_what_does_not_hang_has_no_stacks() -> None:
    dead = Suspect(pid=7, role="worker", dead=True)
    assert basis(hung(finding(dead, chain=())), snapshot(process())) == {}
    assert basis(Diagnosis(verdict=Verdict.SLOW, findings=(finding(SUSPECT),)), snapshot(process())) == {}


def test_a_large_finding_rests_on_few() -> None:
    suspects = [Suspect(pid=pid, role="rank") for pid in range(1, 100)]
    assert list(basis(hung(finding(*suspects)), snapshot(process()))) == list(range(1, 1 + MOST_PROCESSES))


@pytest.mark.parametrize(("reader", "said"), [(BOTH, True), (MPMON, False)])
def test_that_both_readers_said_the_same_is_evidence(reader: str, said: bool) -> None:
    row = msgspec.structs.replace(stack("main", "time.py:1 sleep", "job.py:7 main"), reader=reader)
    rows = (process(), thread(), row, blocked("futex", ran_at=START - 60))
    diagnosis = diagnosed([snapshot(*rows, at=float(second)) for second in range(12)])
    assert diagnosis.verdict is Verdict.HUNG, diagnosis.because
    evidence = " ".join(diagnosis.findings[0].evidence)
    assert (f"mpmon and py-spy read the same calls and lines of pid {ROOT}" in evidence) == said
