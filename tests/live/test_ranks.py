"""mpmon attached to real gloo ranks whose debug servers tell the numbers of their collectives."""

from __future__ import annotations

import importlib.util

import pytest

from mpmon.diagnosis.findings import Certainty, Observation, Verdict
from mpmon.probes.files import Proc
from mpmon.probes.flight_recorder import FlightRecorder, sources
from mpmon.session.sampler import Sampler
from mpmon.session.watch import LiveWatch
from tests.live.running import LONGEST_S, Program
from tests.patience import patience

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]


def told(program: Program) -> Observation:
    """What mpmon says once it hangs, when it may ask the server of each rank."""
    recorder = FlightRecorder(sources(f"http://127.0.0.1:{program.pids[f'port{rank}']}" for rank in range(3)))
    watched = LiveWatch(
        lambda now: Sampler(Proc(), program.pid, now=now, host="host", eager=True, flight_recorder=recorder),
        interval=0.5,
    )
    last: Observation | None = None
    left = patience(LONGEST_S)
    for last in watched:
        if (last.diagnosis.findings and last.snapshot.flight_records) or next(left, None) is None:
            watched.stop()
    assert last is not None
    assert last.diagnosis.verdict is Verdict.HUNG, last.diagnosis.because
    assert [row for row in last.snapshot.unknowns if row.table == "flight_records"] == []
    return last


def test_a_rank_that_is_behind_is_proved() -> None:
    with Program("ranks.py", "behind").hear("rank0", "rank1", "rank2") as program:
        finding = told(program).diagnosis.findings[0]
        assert (finding.cause, finding.certainty) == ("straggler", Certainty.PROVED)
        assert [row.pid for row in finding.suspects] == [program.pids["rank1"]]
        assert "rank 1 has enqueued collective 6 (all_reduce) of group 0" in finding.evidence[0]
        assert "rank 0 and rank 2 wait in 7 (all_reduce)" in finding.evidence[0]


def test_another_operation_under_the_same_number_is_proved() -> None:
    with Program("ranks.py", "clash").hear("rank0", "rank1", "rank2") as program:
        finding = told(program).diagnosis.findings[0]
        assert (finding.cause, finding.certainty) == ("collective-mismatch", Certainty.PROVED)
        assert [row.pid for row in finding.suspects] == [program.pids["rank1"]]
        assert "rank 1 called broadcast as collective 7 of group 0" in finding.evidence


def test_ranks_in_different_groups_are_not_proved() -> None:
    """gloo does not tell who belongs to a group."""
    with Program("ranks.py", "groups").hear("rank0", "rank1", "rank2") as program:
        finding = told(program).diagnosis.findings[0]
        assert (finding.cause, finding.certainty) == ("collective-mismatch", Certainty.LIKELY)
        assert {row.pid for row in finding.suspects} <= {program.pids["rank0"], program.pids["rank1"]}
