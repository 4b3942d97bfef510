"""What all remarks about GPUs have in common: nothing of a healthy job, nothing of what is not known, nothing for nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.diagnosis.remarks import TOPICS, remarks
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Gpu, GpuProcess, MigInstance, Process, Row, Snapshot
from tests.builders import (
    ROOT,
    history,
    process,
    snapshot,
)
from tests.diagnosis.gpu_jobs import (
    WAITS_FOR_BATCH,
    both_hang,
    growing,
    healthy,
    ranks,
    rounds,
    stands,
    trains,
)
from tests.strategies import rows


def test_nothing_is_said_of_a_healthy_job() -> None:
    samples = rounds(150, healthy)
    assert remarks(JobState(history(*samples), samples[-1])) == ()


def unknown(row: Gpu | GpuProcess) -> Row:
    """The same row of which only the identity is known."""
    missing = {field.name: None for field in msgspec.structs.fields(row) if field.default is None}
    return msgspec.structs.replace(row, **missing, reasons=dict.fromkeys(missing, "not supported"))


def without_values(sample: Snapshot) -> Snapshot:
    return msgspec.structs.replace(
        sample, gpus=tuple(map(unknown, sample.gpus)), gpu_processes=tuple(map(unknown, sample.gpu_processes))
    )


@pytest.mark.parametrize(
    "samples",
    [rounds(12, both_hang), growing({0: 0.0, 1: 5.0}), trains(12.0, *WAITS_FOR_BATCH), rounds(150, healthy)],
    ids=["hangs", "grows", "starves", "healthy"],
)
def test_what_is_not_known_leads_to_no_remark(samples: list[Snapshot]) -> None:
    blank = [without_values(sample) for sample in samples]
    assert all(row.utilization_percent is None for sample in blank for row in sample.gpus)
    assert remarks(JobState(history(*blank), blank[-1])) == ()


def test_a_job_without_gpus_is_not_even_looked_at() -> None:
    class Untouched(tuple[Process, ...]):
        """Nobody walks through it."""

        __slots__ = ()

        def __iter__(self) -> Any:
            raise AssertionError

    crowd = snapshot(process(), *(process(pid, parent=ROOT) for pid in range(5000, 5512)))
    job = JobState(history(crowd), crowd)
    job.snapshot = msgspec.structs.replace(crowd, processes=Untouched(crowd.processes), handles=Untouched())
    assert [remark for topic in TOPICS if topic.TOPIC.startswith("gpu-") for remark in topic.remarks(job)] == []


@settings(max_examples=60, deadline=None)
@given(st.lists(rows(Gpu), max_size=3), st.lists(rows(GpuProcess), max_size=4), st.lists(rows(MigInstance), max_size=2))
def test_whatever_the_driver_says_is_survived(
    gpus: list[Gpu], contexts: list[GpuProcess], instances: list[MigInstance]
) -> None:
    ours = [msgspec.structs.replace(row, pid=10 + number % 2) for number, row in enumerate(contexts)]
    samples = [snapshot(*ranks(), *stands(10), *gpus, *ours, *contexts, *instances, at=second) for second in range(3)]
    for remark in remarks(JobState(history(*samples), samples[-1])):
        assert remark.summary
