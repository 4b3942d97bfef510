"""Numbers of observations, and how Prometheus is told of them."""

from __future__ import annotations

import re

import msgspec
import pytest

from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import (
    Certainty,
    Diagnosis,
    Finding,
    Observation,
    Place,
    Remark,
    Suspect,
    TrendPoint,
    Verdict,
)
from mpmon.export.page import page
from mpmon.export.samples import MOST_RANKS, Family, Samples
from mpmon.model import Process, QueueRecord
from mpmon.session.watch import ReplayWatch
from tests.alarm.test_hangs import HOSTILE
from tests.builders import ROOT, START, gpu, on_gpu, process, snapshot, view
from tests.nodes.recorded import last, recordings
from tests.session.hanging import record


def ranks(count: int) -> list[Process]:
    return [process(ROOT + number) for number in range(count)]


def observation(*rows: Process, at: float = 10.0, verdict: Verdict = Verdict.HUNG, **more: object) -> Observation:
    """Ranks on a GPU each, the first of which stands."""
    views = tuple(
        view(row.pid, f"rank {number}", rank=number, still_since=None if number else START + 4.0)
        for number, row in enumerate(rows)
    )
    devices = [each for number, row in enumerate(rows[:8]) for each in (gpu(number), on_gpu(row.pid, number))]
    place = Place(function="Shards.read", file="/home/ada/cats/train.py", line=29)
    suspect = Suspect(pid=ROOT, role="rank 0", rank=0, frame=place)
    finding = Finding(cause="worker-stuck", certainty=Certainty.LIKELY, summary="it sleeps", suspects=(suspect,))
    hung = verdict is Verdict.HUNG
    made = Diagnosis(
        verdict=verdict, since=START + 4.0, findings=(finding,) if hung else (), processes=views,
        remarks=(Remark(topic="gpu-spinning", summary="", gpu_uuids=("GPU-1",)),),
    )  # fmt: skip
    made = msgspec.structs.replace(made, **more)
    return Observation(snapshot=snapshot(*rows, *devices, at=at), diagnosis=made, watched_s=at)


def values(families: list[Family], name: str) -> dict[tuple[str, ...], float]:
    return next(family.values for family in families if family.name == name)


def test_a_hang() -> None:
    found = Samples("cats").add(observation(*ranks(2)), 1.5)
    assert values(found, "mpmon_verdict") == {
        ("cats", "hung"): 1.0, ("cats", "slow"): 0.0, ("cats", "healthy"): 0.0, ("cats", "unknown"): 0.0,
    }  # fmt: skip
    assert values(found, "mpmon_hang_seconds") == {("cats",): 6.0}
    assert values(found, "mpmon_rank_still_seconds") == {("cats", "0"): 6.0, ("cats", "1"): 0.0}
    assert values(found, "mpmon_gpu_spinning") == {("cats", "0", "0"): 0.0, ("cats", "1", "1"): 1.0}
    assert values(found, "mpmon_last_look_timestamp_seconds") == {("cats",): START + 10.0}
    assert values(found, "mpmon_look_cpu_seconds") == {("cats",): 1.5}
    (labels,) = values(found, "mpmon_finding")
    assert labels == ("cats", "worker-stuck", "likely", "", "0", "rank 0", "Shards.read", "train.py:29")


def test_a_job_that_works_has_hung_for_no_time_and_has_no_finding() -> None:
    found = Samples("cats").add(observation(*ranks(2), verdict=Verdict.SLOW), 0.0)
    assert values(found, "mpmon_hang_seconds") == {("cats",): 0.0}
    assert values(found, "mpmon_finding") == {}


def test_a_part_of_a_job_says_nothing_of_the_whole() -> None:
    names = {family.name for family in Samples("cats").add(observation(*ranks(2), elsewhere=6), 0.0)}
    assert "mpmon_rank_still_seconds" in names
    assert not names & {"mpmon_verdict", "mpmon_hang_seconds", "mpmon_finding"}


def test_ranks_on_other_machines_are_noticed() -> None:
    """Of recordings of three machines of a job, the first one alone."""
    alone = ReplayWatch(recordings("worker")[0], at_once=True)
    assert [each.diagnosis.elsewhere for each in alone][-1] > 0
    together = last(*recordings("worker"))
    assert together.diagnosis.elsewhere == 0
    found = Samples().add(together, 0.0)
    assert {labels[-1]: value for labels, value in values(found, "mpmon_nodes").items()} == {
        "answers": 3.0,
        "silent": 0.0,
    }


def test_ranks_on_this_machine_only() -> None:
    variables = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1"}
    row = process(environment=variables)
    assert diagnose(History().add(snapshot(row))).elsewhere == 0


def test_batches_are_counted_from_the_first_look_at_a_queue() -> None:
    def seen(**gets: int) -> Observation:
        """By the shim, from queues of these numbers."""
        records = tuple(
            QueueRecord(object=f"pipe:{name[1:]}", pid=ROOT, puts=0, gets=count) for name, count in gets.items()
        )
        found = observation(*ranks(1), queue_parts={f"pipe:{name[1:]}": "loader result queue" for name in gets})
        now = msgspec.structs.replace(found.snapshot, queue_records=records)
        moment = TrendPoint(taken_at=START, gpus=(), gpu_processes=(), cpu={}, queue_records=records)
        return msgspec.structs.replace(found, snapshot=now, trend=(moment,))

    samples = Samples("cats")
    counts = [
        values(samples.add(each, 0.0), "mpmon_rank_batches").get(("cats", "0"))
        for each in (seen(q7=100), seen(q7=104), seen(q8=3), seen(q8=5), seen(q8=2), seen())
    ]
    assert counts == [0.0, 4.0, 4.0, 6.0, 6.0, 6.0]


def test_a_job_keeps_its_name() -> None:
    samples = Samples()
    named = process(environment={"SLURM_JOB_ID": "4711"})
    for each in (observation(named), observation(process())):
        assert set(values(samples.add(each, 0.0), "mpmon_hang_seconds")) == {("4711",)}


@pytest.mark.parametrize("given", [None, "cats"])
def test_there_are_never_more_series_than_ranks(given: str | None) -> None:
    many = Samples(given).add(observation(*ranks(2 * MOST_RANKS)), 0.0)
    assert max(len(family.values) for family in many) == MOST_RANKS


def test_a_job_is_hostile() -> None:
    place = Place(function=HOSTILE, file=f"/home/{HOSTILE}.py", line=7)
    suspect = Suspect(pid=ROOT, role=HOSTILE, rank=0, frame=place, host=HOSTILE)
    finding = Finding(cause="worker-stuck", certainty=Certainty.LIKELY, summary="", suspects=(suspect,))
    row = process(environment={"SLURM_JOB_ID": HOSTILE * 100})
    text = page(Samples().add(observation(row, findings=(finding,)), 0.0)).decode()
    for line in text.splitlines():
        assert re.fullmatch(r"# .*|\w+\{(\w+=\"[\w.:@/+ -]{0,80}\",?)*\} [\d.e+]+", line), line


def test_the_whole_page_of_a_recorded_hang(tmp_path: pytest.TempPathFactory) -> None:
    samples = Samples()
    pages = [page(samples.add(each, 0.25)).decode() for each in ReplayWatch(record(tmp_path / "r"), at_once=True)]  # type: ignore[operator]
    assert 'mpmon_hang_seconds{job_id="4100"} 0.0' in pages[0]
    assert 'mpmon_verdict{job_id="4100",verdict="hung"} 1.0' in pages[-1]
    assert 'role="dataloader worker 0"' in pages[-1]
    assert f"pid={ROOT}" not in pages[-1]
    assert "/home" not in pages[-1]
    assert "mpmon_look_cpu_seconds_total" in pages[-1]
    assert "_created" not in pages[-1]
