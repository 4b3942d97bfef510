"""Remarks about what devices do: ranks that spin, ranks that starve."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mpmon.model import Row
from tests.builders import (
    START,
    blocked,
    gpu,
    on_gpu,
    running,
    stack,
    thread,
)
from tests.diagnosis.gpu_jobs import (
    GIB,
    LOADS_ALONE,
    SPINNING,
    WAITS_FOR_BATCH,
    WORKING,
    Rows,
    both_hang,
    busy,
    moves,
    ranks,
    rounds,
    said,
    spins,
    stands,
    trains,
    words,
)

# gpu-spinning


def test_ranks_that_spin_though_never_seen_at_work() -> None:
    (found,) = said("gpu-spinning", rounds(12, both_hang))
    assert found.summary == (
        "ranks 0-1 stand still, and their GPUs only spin: 100 % busy at 110 W, as far as can be told of a device that was "
        "never seen at work"
    )
    assert found.pids == (10, 11)
    assert "GPU 0: 100 % at 110 W of 700 W, its memory busy for 0 %" in found.evidence[0]


def hangs_later(second: int, *, then: dict[str, Any]) -> Rows:
    if second < 15:
        return (*ranks(1), *moves(10, second), *busy(0, second, **WORKING))
    return (*ranks(1), *spins(10, 15), *busy(0, second, **then))


def test_a_rank_that_spins_at_a_fraction_of_its_own_power() -> None:
    (found,) = said("gpu-spinning", rounds(30, lambda second: hangs_later(second, then=SPINNING)))
    assert "as far as can be told" not in found.summary
    assert "540 W while it worked" in found.evidence[0]
    assert found.since == START + 15


def test_its_own_level_counts_where_the_limit_would_say_nothing() -> None:
    half = {**SPINNING, "power_watts": 300.0, "memory_utilization_percent": None}
    assert said("gpu-spinning", rounds(30, lambda second: hangs_later(second, then=half)))
    near = {**SPINNING, "power_watts": 500.0}
    assert said("gpu-spinning", rounds(30, lambda second: hangs_later(second, then=near))) == []


def test_the_rank_that_is_elsewhere_is_named() -> None:
    def one_is_elsewhere(second: int) -> Rows:
        idle = gpu(1, at=second, utilization_percent=0.0), on_gpu(11, 1, mib=40 * GIB, sm_percent=0.0)
        elsewhere = stands(11, "save.py:7 save")
        return (*ranks(), *stands(10), *elsewhere, *busy(0, second, **SPINNING), *idle)

    (found,) = said("gpu-spinning", rounds(12, one_is_elsewhere))
    assert found.pids == (10,)
    assert "rank 1 is not among them: GPU 1 is busy for 0 %" in found.evidence[-1]
    assert "in save() at save.py:7" in found.evidence[-1]


def hung(second: int, values: dict[str, Any], *others: Row) -> Rows:
    """One rank that stands on one device."""
    return (
        *ranks(1), *stands(10), gpu(0, at=second, **values), *others,
        on_gpu(10, sm_percent=99.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        {**SPINNING, "power_watts": 400.0},
        {**SPINNING, "power_watts": None},
        {**SPINNING, "power_limit_watts": None},
        {**SPINNING, "memory_utilization_percent": 35.0},
        {**SPINNING, "memory_utilization_percent": None},
        {**SPINNING, "utilization_percent": 60.0},
        {**SPINNING, "utilization_percent": None},
        {**SPINNING, "problem": "the GPU is lost"},
        {**SPINNING, "read_at": START - 100},
    ],
)
def test_a_rank_that_stands_with_a_device_that_works_or_is_not_known(values: dict[str, Any]) -> None:
    assert said("gpu-spinning", rounds(12, lambda second: hung(second, SPINNING)))
    assert said("gpu-spinning", rounds(12, lambda second: hung(second, values))) == []


def test_somebody_else_may_be_the_one_who_works() -> None:
    stranger = on_gpu(900, mib=9000, sm_percent=80.0, name="python")
    unknown = on_gpu(900, mib=9000, sm_percent=80.0, reasons={"pid": "of another namespace"})
    idle = on_gpu(900, mib=9000, sm_percent=0.0)
    for other, told in ((stranger, False), (unknown, False), (idle, True)):
        seen = rounds(12, lambda second, other=other: hung(second, SPINNING, other))
        assert bool(said("gpu-spinning", seen)) is told


def test_a_rank_that_moves_works() -> None:
    seen = rounds(12, lambda second: (*ranks(1), *moves(10, second), *busy(0, second, **SPINNING)))
    assert said("gpu-spinning", seen) == []


def test_another_thread_of_the_rank_may_do_the_work() -> None:
    def serves(second: int) -> Rows:
        loop = stack("generate", f"serve.py:{30 + second % 5} generate", pid=10, tid=99, at=second)
        working = (thread(10, 99, slices=second), loop, running(10, 99))
        return (*ranks(1), *stands(10), *working, *busy(0, second, **SPINNING))

    assert said("gpu-spinning", rounds(12, serves)) == []


def test_a_rank_that_has_just_stopped_is_given_time() -> None:
    assert said("gpu-spinning", rounds(5, both_hang)) == []


# gpu-starved


def test_a_rank_that_waits_for_its_loader() -> None:
    (found,) = said(
        "gpu-starved", [msgspec.structs.replace(row, cpu_count=8) for row in trains(12.0, *WAITS_FOR_BATCH)]
    )
    assert (
        found.summary
        == "rank 0 waits for batches most of the time, and its GPU is busy for only 12 %: the loader is the bottleneck"
    )
    assert (
        found.evidence[0] == "rank 0 was waiting for the next batch at 16 of 16 looks in 15 s; GPU 0 was busy for 12 %"
    )
    assert found.evidence[1].startswith("it has 2 DataLoader workers, 2 of them have work: ")
    assert found.advice[0].startswith("Use more workers (2 now, 8 CPUs)")


def test_more_workers_do_not_help_where_there_are_no_cpus() -> None:
    assert "More workers will not help, 2 share 1 CPU:" in words(said("gpu-starved", trains(12.0, *WAITS_FOR_BATCH)))


def test_a_rank_that_loads_by_itself() -> None:
    found = words(said("gpu-starved", trains(12.0, *LOADS_ALONE, workers=0)))
    assert "was making a batch by itself at 16 of 16 looks" in found
    assert "Let the DataLoader have workers" in found


@pytest.mark.parametrize(
    ("percent", "every"), [(95.0, 1), (None, 1), (12.0, 3)], ids=["busy all the same", "unknown", "seldom waits"]
)
def test_a_loader_that_keeps_up(percent: float | None, every: int) -> None:
    assert said("gpu-starved", trains(percent, *WAITS_FOR_BATCH, every=every)) == []


def test_a_rank_that_hangs_in_its_loader_does_not_starve() -> None:
    def facts(second: int) -> Rows:
        waits = (thread(10), stack("main", *WAITS_FOR_BATCH, "train.py:7 main", pid=10), blocked("poll", pid=10))
        return (*ranks(1), *waits, gpu(0, at=second), on_gpu(10))

    assert said("gpu-starved", rounds(15, facts)) == []
