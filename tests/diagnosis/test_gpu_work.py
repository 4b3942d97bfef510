"""Remarks about what devices do: ranks that spin, ranks that starve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Verdict
from mpmon.diagnosis.thresholds import GPU_FRESH_S
from mpmon.model import Collective, FlightRecord, GroupProgress, Row, Snapshot
from tests.builders import (
    START,
    blocked,
    diagnosed,
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
    rank,
    ranks,
    rounds,
    said,
    spins,
    stands,
    synchronize,
    trains,
    words,
)
from tests.diagnosis.test_invariance import diagnosed as replayed
from tests.hangs.expected import HOME

# What a process does

LONG_STEP = HOME / "ok-gpu-long-step"


def long_step(*, devices_late_s: float = 0.0) -> str:
    """What is said of a job, recorded on a GPU, whose main thread waits for the results of long kernels."""

    def change(snapshot: Snapshot) -> Snapshot:
        late = tuple(msgspec.structs.replace(row, read_at=row.read_at - devices_late_s) for row in snapshot.gpus)
        return msgspec.structs.replace(snapshot, gpus=late)

    return replayed(LONG_STEP, change).because


def test_a_thread_that_waits_for_its_gpu_does_not_seem_to_loop() -> None:
    assert long_step() == "main is running, its GPU 80 % busy in step() at job.py:26"


def test_old_values_of_a_device_say_nothing_of_the_present() -> None:
    assert long_step(devices_late_s=2 * GPU_FRESH_S) == "main is in a busy loop in step() at job.py:26"


# gpu-spinning


def test_ranks_that_spin_though_never_seen_at_work() -> None:
    (found,) = said("gpu-spinning", rounds(12, both_hang))
    assert found.summary == (
        "ranks 0-1 make no progress, and their GPUs only spin: 100 % busy at 110 W, as far as known: "
        "the device was never seen working"
    )
    assert found.pids == (10, 11)
    assert "GPU 0: 100 % at 110 W of 700 W, its memory busy 0 %" in found.evidence[0]


def hangs_later(second: int, *, then: dict[str, Any]) -> Rows:
    if second < 15:
        return (*ranks(1), *moves(10, second), *busy(0, second, **WORKING))
    return (*ranks(1), *spins(10, 15), *busy(0, second, **then))


def test_a_rank_that_spins_at_a_fraction_of_its_own_power() -> None:
    (found,) = said("gpu-spinning", rounds(30, lambda second: hangs_later(second, then=SPINNING)))
    assert "as far as known" not in found.summary
    assert "540 W while working" in found.evidence[0]
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
    assert "rank 1 is not among them: GPU 1 is 0 % busy" in found.evidence[-1]
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


# gpu-spinning, of ranks that burn their CPUs in the wait as well


CONFIRM = "--flight-recorder SOURCE, or --nccl-ras"


def test_ranks_that_all_wait_for_their_gpus_are_told_what_would_show_it() -> None:
    seen = rounds(240, lambda second: synchronize(second, 4))
    (found,) = said("gpu-spinning", seen)
    assert found.summary == (
        "all 4 ranks have waited for their GPUs for 4 min while the GPUs do little work (100 % busy at 110 W): perhaps in "
        "collectives that some rank never joined"
    )
    assert CONFIRM in found.advice[-1]
    assert found.since == START
    assert diagnosed(seen).verdict is Verdict.HEALTHY


def test_a_wait_that_has_not_lasted_a_minute_may_be_a_long_step() -> None:
    (found,) = said("gpu-spinning", rounds(50, synchronize))
    assert found.summary.startswith("ranks 0-1 make no progress, and their GPUs only spin")
    assert CONFIRM not in words([found])


def test_one_rank_alone_waits_for_nobody() -> None:
    assert CONFIRM not in words(said("gpu-spinning", rounds(100, lambda second: synchronize(second, 1))))


def test_the_level_is_of_when_it_worked_however_often_it_was_looked_at_since() -> None:
    """More often than looks are remembered: what it draws while it waits is never taken for its work."""

    def facts(second: int) -> Rows:
        before = (*ranks(), *moves(10, second), *moves(11, second))
        works = (*before, *busy(0, second, **WORKING), *busy(1, second, **WORKING))
        return works if second < 15 else synchronize(second)

    (found,) = said("gpu-spinning", rounds(120, facts))
    assert "540 W while working" in found.evidence[0]
    assert found.since == START + 15


COMPILES = "torch/_dynamo/eval_frame.py:1048 _fn"

CALM = {
    "a long evaluation": lambda second: synchronize(second, 2, f"evaluate.py:{second % 3 + 5} evaluate"),
    "a large product": lambda second: synchronize(second, 2, power_watts=640.0, memory_utilization_percent=60.0),
    "compiles": lambda second: synchronize(second, 2, COMPILES, utilization_percent=0.0, power_watts=80.0),
    "one saves": lambda second: (*synchronize(second, 1), rank(1), *moves(11, second), *busy(1, second, **WORKING)),
}


@pytest.mark.parametrize("facts", CALM.values(), ids=CALM)
def test_ranks_that_take_long_are_not_told_to_wait(facts: Callable[[int], Rows]) -> None:
    seen = rounds(240, facts)
    assert CONFIRM not in words(said("gpu-spinning", seen))
    assert diagnosed(seen).verdict is Verdict.HEALTHY


def record(number: int, **counts: tuple[int, int | None]) -> FlightRecord:
    """What a rank's Flight Recorder says once it has come to rest: by group what it began, and what has not ended."""
    groups = tuple(
        GroupProgress(backend="nccl", name=name, enqueued=begun, waits_in=waits, ranks=(0, 1))
        for name, (begun, waits) in counts.items()
    )
    return FlightRecord(rank=number, read_at=START + 5, groups=groups)


def begun(number: int, operation: str, at: int, group: str = "tp") -> Collective:
    return Collective(
        rank=number, backend="nccl", group=group, number=at, operation=operation, state="started", sizes=((4,),),
        dtypes=("Float",),
    )  # fmt: skip


CROSSED = (record(0, dp=(6, 6), tp=(2, None)), record(1, dp=(5, None), tp=(3, 3)))
CLASH = (record(0, tp=(6, 6)), record(1, tp=(6, 6)), begun(0, "all_reduce", 6), begun(1, "broadcast", 6))
SAME = (record(0, tp=(6, 6)), record(1, tp=(6, 6)), begun(0, "all_reduce", 6), begun(1, "all_reduce", 6))
BEHIND = (record(0, tp=(6, 6)), record(1, tp=(5, None)), begun(0, "all_reduce", 6))


@pytest.mark.parametrize("recorded", [CROSSED, CLASH], ids=["crossed", "another operation"])
def test_ranks_that_wait_for_each_other_by_their_numbers_hang(recorded: Rows) -> None:
    found = diagnosed(rounds(90, lambda second: (*synchronize(second), *recorded)))
    assert found.verdict is Verdict.HUNG
    assert [(row.cause, row.certainty) for row in found.findings] == [("collective-mismatch", Certainty.LIKELY)]
    assert {row.rank for row in found.findings[0].suspects} == {0, 1}


@pytest.mark.parametrize(
    ("recorded", "seconds", "values"),
    [(CROSSED, 40, {}), (CROSSED, 90, {"power_watts": 640.0}), (SAME, 90, {}), (BEHIND, 90, {}), ((), 90, {})],
    ids=["not for long", "the GPUs work", "in the same", "one is behind and gets on", "no numbers"],
)
def test_without_all_these_facts_together_they_do_not(recorded: Rows, seconds: int, values: dict[str, Any]) -> None:
    found = diagnosed(rounds(seconds, lambda second: (*synchronize(second, **values), *recorded)))
    assert found.verdict in (Verdict.HEALTHY, Verdict.SLOW)
    assert found.findings == ()


# gpu-starved


def test_a_rank_that_waits_for_its_loader() -> None:
    (found,) = said(
        "gpu-starved", [msgspec.structs.replace(row, cpu_count=8) for row in trains(12.0, *WAITS_FOR_BATCH)]
    )
    assert (
        found.summary
        == "rank 0 waits for batches most of the time, and its GPU is only 12 % busy: the loader is the bottleneck"
    )
    assert (
        found.evidence[0] == "rank 0 was waiting for the next batch in 16 of 16 samples over 15 s; GPU 0 was 12 % busy"
    )
    assert found.evidence[1].startswith("it has 2 DataLoader workers, 2 of them busy: ")
    assert found.advice[0].startswith("Use more workers (2 now, 8 CPUs)")


def test_more_workers_do_not_help_where_there_are_no_cpus() -> None:
    assert "More workers will not help: 2 share 1 CPU:" in words(said("gpu-starved", trains(12.0, *WAITS_FOR_BATCH)))


def test_a_rank_that_loads_by_itself() -> None:
    found = words(said("gpu-starved", trains(12.0, *LOADS_ALONE, workers=0)))
    assert "was making a batch itself in 16 of 16 samples" in found
    assert "Give the DataLoader workers" in found


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
