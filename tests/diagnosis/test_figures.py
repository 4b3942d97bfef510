"""The machine that is slow: named where it differs from the others in what slows machines down, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from mpmon.diagnosis.findings import Bottleneck
from mpmon.diagnosis.remarks import node_slow
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import FIGURE_LEAST_S
from mpmon.diagnosis.throughput.figures import differences
from mpmon.diagnosis.throughput.pace import Progress
from mpmon.model import Figures, Snapshot
from mpmon.nodes.join import Part, join
from tests.builders import history, process, snapshot, thread


def figures(name: str, *values: float | None, over_s: float = 30.0) -> dict[int, Figures]:
    return {
        at: Figures(over_s=over_s, **({} if value is None else {name: float(value)})) for at, value in enumerate(values)
    }


DIFFER = {
    "steal_percent": (0, 0.5, 38, 0),
    "throttled_percent": (0, 0, 60),
    "memory_stall_percent": (1, 0, 2, 45),
    "gpus_slowed": (0, 1, 0),
    "gpu_clock_percent": (98, 99, 71, 98),
    "nic_errors_per_s": (0, 0, 0, 12),
    "nic_drops_per_s": (1, 0, 2, 900),
    "retransmit_percent": (0.01, 0.02, 0.01, 4),
    "load_per_cpu": (0.4, 0.5, 3.1, 0.45),
    "gpu_utilization_percent": (97, 99, 40, 98),
    "gpu_power_watts": (600, 610, 310, 605),
}


@pytest.mark.parametrize("name", DIFFER)
def test_the_machine_that_differs(name: str) -> None:
    values = DIFFER[name]
    (found,) = differences(figures(name, *values))

    odd = min(values) if found.kind.is_low else max(values)
    assert (found.machine, found.value, found.others) == (values.index(odd), odd, len(values) - 1)


@pytest.mark.parametrize("name", DIFFER)
@pytest.mark.parametrize("how", ["alike", "scattered", "not known", "of a moment", "two of three are odd"])
def test_no_machine_differs(name: str, how: str) -> None:
    values = DIFFER[name]
    least, most = min(values), max(values)
    (kind,) = (row.kind for row in differences(figures(name, *values)))
    odd = least if kind.is_low else most
    calm = most if kind.is_low else least
    rows = {
        "alike": figures(name, *[odd] * 4),
        "scattered": figures(name, *(least + (most - least) * part for part in range(5))),
        "not known": figures(name, None, None, None if kind.alone else odd),
        "of a moment": figures(name, *values, over_s=FIGURE_LEAST_S - 1),
        "two of three are odd": figures(name, odd, calm, odd),
    }[how]

    assert list(differences(rows)) == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("steal_percent", (0.2, 0.1, 6.0)),  # three times sixty, and nobody would notice
        ("steal_percent", (20, 24, 30)),  # an overbooked cluster
        ("throttled_percent", (40, 45, 52, 61)),
        ("gpu_clock_percent", (97, 93, 96, 98)),
        ("gpu_clock_percent", (60, 62, 61, 58)),  # all under the same limit
        ("load_per_cpu", (0.2, 0.9, 0.3)),  # the first rank writes logs
        ("nic_drops_per_s", (0, 0, 3)),  # some protocol that nobody listens to
        ("retransmit_percent", (0.0, 0.0, 0.4)),
        ("nic_errors_per_s", (0, 0, 0.2)),
    ],
)
def test_what_is_no_harm_or_common_to_all(name: str, values: tuple[float, ...]) -> None:
    assert list(differences(figures(name, *values))) == []


def test_a_quota_that_only_one_machine_has() -> None:
    (found,) = differences(figures("throttled_percent", None, 30, None))
    assert (found.machine, found.usual) == (1, None)


@pytest.mark.parametrize("name", DIFFER)
def test_of_two_machines_only_what_is_bad_by_itself_is_told(name: str) -> None:
    values = DIFFER[name]
    found = list(differences(figures(name, min(values), max(values))))

    alone = ("steal_percent", "throttled_percent", "memory_stall_percent", "gpus_slowed", "nic_errors_per_s")
    assert len(found) == (name in alone)
    assert all(row.usual is None for row in found)


# The remark


def job(**by_host: Figures) -> Snapshot:
    parts = []
    for number, (host, row) in enumerate(by_host.items()):
        rank = process(environment={"RANK": str(number), "WORLD_SIZE": str(len(by_host))})
        parts.append(Part(host=host, snapshot=snapshot(rank, thread(), row)))
    return join(parts)


def told(snapshot: Snapshot) -> list[Any]:
    return list(node_slow.remarks(JobState(history(snapshot), snapshot)))


CALM = Figures(over_s=30.0, steal_percent=0.2, load_per_cpu=0.5)
STOLEN = Figures(over_s=30.0, steal_percent=38.0, load_per_cpu=0.6)
LOADED = Figures(over_s=30.0, steal_percent=0.0, load_per_cpu=4.0)


def test_the_remark_names_machine_figure_and_ranks() -> None:
    (remark,) = told(job(n1=CALM, n2=STOLEN, n3=CALM))

    assert remark.topic == "node-slow"
    assert remark.summary == "n2 may slow the job down: 38 % of its CPU time goes to other virtual machines"
    assert remark.evidence == (
        "n2: 38 % of its CPU time goes to other virtual machines, over 30 s; median of the 2 others 0.20",
        "rank 1 runs there",
    )
    assert remark.advice == ("Move that virtual machine, or ask for dedicated CPUs: its host is overcommitted.",)


def test_of_two_machines_the_remark_lays_against_nobody() -> None:
    (remark,) = told(job(n1=CALM, n2=STOLEN))
    assert remark.evidence[0] == "n2: 38 % of its CPU time goes to other virtual machines, over 30 s"


@pytest.mark.parametrize(("awaited", "is_told"), [("n2", True), ("n3", False)])
def test_load_is_told_of_the_machine_that_the_job_waits_for(
    monkeypatch: pytest.MonkeyPatch, awaited: str, *, is_told: bool
) -> None:
    loaded = job(n1=CALM, n2=LOADED, n3=CALM)
    (rank,) = (row.pid for row in loaded.processes if row.host == awaited)
    monkeypatch.setattr(
        node_slow, "progress", lambda _: Progress(bottleneck=Bottleneck(pids=(rank,), what="work", summary="they wait"))
    )

    assert [row.summary for row in told(loaded)] == ["n2 may slow the job down: its load is 4 per CPU"] * is_told
    assert [line for row in told(loaded) for line in row.evidence][1:] == [
        "rank 1 runs there, and all others wait for it"
    ] * is_told


@pytest.mark.parametrize(
    "calm",
    [
        job(n1=CALM, n2=CALM, n3=CALM),
        job(n1=STOLEN, n2=STOLEN, n3=STOLEN),
        job(n1=CALM, n2=LOADED, n3=CALM),
        snapshot(process(), thread(), STOLEN),
    ],
    ids=["all well", "all alike", "loaded, and nobody waits for it", "one machine"],
)
def test_nothing_is_remarked(calm: Snapshot) -> None:
    assert told(calm) == []
