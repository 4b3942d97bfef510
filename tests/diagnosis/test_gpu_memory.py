"""Remarks about who has memory where: what dead ranks leave, growth, contexts on the devices of others."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mpmon.diagnosis.findings import Remark
from mpmon.model import Exit, GpuProcess, MigInstance, Row
from tests.builders import (
    MIB,
    ROOT,
    START,
    gpu,
    holds,
    on_gpu,
    process,
    snapshot,
)
from tests.diagnosis.gpu_jobs import (
    GIB,
    USED,
    Rows,
    growing,
    rank,
    ranks,
    rounds,
    said,
    worker,
)

# gpu-held


def rank_dies(second: int, *, stays_listed: bool = True, **more: object) -> Rows:
    """After two seconds; its worker goes on, re-parented to init."""
    alive = second < 2
    end = () if alive else (Exit(pid=10, start_time=rank(0).start_time, seen_at=START + 2, process=rank(0)),)
    reasons = {} if alive else {"pid": "not visible here"}
    listed = (on_gpu(10, 0, mib=60 * GIB, reasons=reasons),) if alive or stays_listed else ()
    return (
        process(), *((rank(0),) if alive else ()), rank(1), on_gpu(11, 1), *end, *listed,
        worker(parent=10 if alive else 1, **more), holds(30, "device:/dev/nvidia0"), holds(30, "device:/dev/nvidiactl"),
        gpu(0, at=second, memory_used_bytes=60 * GIB * MIB), gpu(1, at=second, memory_used_bytes=500 * MIB),
    )  # fmt: skip


@pytest.mark.parametrize("stays_listed", [True, False])
def test_a_forked_worker_keeps_the_memory_of_its_dead_rank(stays_listed: bool) -> None:
    (found,) = said("gpu-held", rounds(12, lambda second: rank_dies(second, stays_listed=stays_listed)))
    assert found.summary == (
        "dataloader worker 0 (pid 30) has outlived the process that started it and keeps memory of GPU 0"
    )  # fmt: skip
    assert found.evidence == (
        "pid 30: pid 10, the process of rank 0, has ended with 60.0 GiB on GPU 0; it was forked, and has /dev/nvidia0 open",
        "60.0 GiB of GPU 0 belong to no living process",
    )
    assert found.advice == ("Nobody waits for it any more: kill 30, and kill -9 if that fails.",)


def test_the_same_when_mpmon_came_later() -> None:
    seen = rounds(20, lambda second: rank_dies(second, stays_listed=False))
    (found,) = said("gpu-held", [sample for sample in seen if sample.taken_at >= START + 5])
    assert "keeps memory of GPU 0" in found.summary


def test_a_worker_ends_by_itself_some_seconds_after_its_rank() -> None:
    assert said("gpu-held", rounds(6, rank_dies)) == []


def test_a_worker_of_a_living_rank_inherits_descriptors_by_right() -> None:
    seen = rounds(
        12, lambda _: (*ranks(1), worker(), holds(30, "device:/dev/nvidia0"), gpu(0, memory_used_bytes=60 << 30))
    )
    assert said("gpu-held", seen) == []


def orphan_on(second: int, *others: Row, used: int | None, **more: object) -> Rows:
    return (process(), worker(parent=1, **more), gpu(0, at=second, memory_used_bytes=used), *others)


@pytest.mark.parametrize(
    ("used", "others", "told"),
    [
        (60 << 30, (holds(30, "device:/dev/nvidia0"),), True),
        (60 << 30, (holds(30, "device:/dev/nvidia1"),), False),
        (60 << 30, (holds(30, "device:/dev/nvidia-uvm"), holds(30, "device:/dev/null")), False),
        (60 << 30, (holds(30, "device:/dev/nvidia0"), on_gpu(900, mib=60 * GIB)), False),
        (60 << 30, (holds(30, "device:/dev/nvidia0"), on_gpu(900, mib=None)), False),
        (500 << 20, (holds(30, "device:/dev/nvidia0"),), False),
        (None, (holds(30, "device:/dev/nvidia0"),), False),
        (None, (on_gpu(30, mib=700),), True),
    ],
)
def test_an_orphan_is_blamed_for_what_nobody_else_accounts_for(used: int | None, others: Rows, told: bool) -> None:
    seen = rounds(12, lambda second: orphan_on(second, *others, used=used))
    assert bool(said("gpu-held", seen)) is told


def test_one_that_was_not_forked_inherited_nothing() -> None:
    def spawned(second: int) -> Rows:
        return orphan_on(second, holds(30, "device:/dev/nvidia0"), used=60 << 30)

    assert said("gpu-held", rounds(12, spawned))
    others = [
        msgspec.structs.replace(
            sample, processes=tuple(msgspec.structs.replace(row, forked=False) for row in sample.processes)
        )
        for sample in rounds(12, spawned)
    ]
    assert said("gpu-held", others) == []


def test_ranks_that_a_shell_left_behind_are_no_orphans() -> None:
    lone = msgspec.structs.replace(rank(1), ppid=1)
    seen = rounds(12, lambda second: (process(), lone, on_gpu(11, 0), gpu(0, at=second)))
    assert said("gpu-held", seen) == []


def ends_and_stays(second: int, *, pid: int = 11, name: str | None = None) -> Rows:
    """A rank ends after a second; the driver goes on listing that pid, which is no process here any more."""
    if second < 1:
        return (*ranks(2), on_gpu(11, 0, mib=GIB), gpu(0, at=second))
    end = Exit(pid=pid, start_time=0.0, seen_at=START + 1, process=rank(1))
    reasons = {} if name else {"pid": "not visible here"}
    return (*ranks(1), end, on_gpu(pid, 0, mib=GIB, name=name, reasons=reasons), gpu(0, at=second))


def test_a_pid_that_has_ended_and_is_still_listed() -> None:
    (found,) = said("gpu-held", rounds(12, ends_and_stays))
    assert found.summary == "the driver still counts memory of GPU 0 for pid 11 of this job, which has ended"
    assert found.evidence == ("pid 11: 1.0 GiB on GPU 0",)


def test_a_pid_that_has_just_ended_or_is_somebody_elses() -> None:
    assert said("gpu-held", rounds(5, ends_and_stays)) == []
    assert said("gpu-held", rounds(12, lambda second: ends_and_stays(second, name="another program"))) == []
    assert said("gpu-held", rounds(12, lambda second: ends_and_stays(second, pid=12))) == []


@pytest.mark.parametrize(
    ("stranger", "told"),
    [
        (on_gpu(900, 1, mib=12 * GIB, name="python"), True),
        (on_gpu(900, 1, mib=100), False),
        (on_gpu(900, 1, mib=None), False),
        (on_gpu(900, 2, mib=12 * GIB), False),
        (on_gpu(900, 1, mib=12 * GIB, kinds=("graphics",)), False),
        (on_gpu(900, 1, mib=12 * GIB, reasons={"pid": "of another namespace"}), False),
    ],
)
def test_strangers_on_a_device_of_the_job(stranger: GpuProcess, told: bool) -> None:
    found = said("gpu-held", snapshot(*USED, gpu(0), gpu(1), gpu(2), stranger))
    assert bool(found) is told
    if found:
        assert found[0].summary == f"pid 900 (python), not under pid {ROOT}, holds memory of GPU 1, which rank 1 uses"
        assert "ps -o pid,ppid,user,lstart,args -p 900" in found[0].advice[0]


# gpu-memory-grows


def test_one_rank_whose_memory_grows() -> None:
    (found,) = said("gpu-memory-grows", growing({0: 0.0, 1: 5.0, 2: 0.1}))
    assert found.summary == (
        "the memory of rank 1 on GPU 1 has grown by 1000 MiB in 3 min 20 s, steadily, and its peers' by nothing to 20 MiB"
    )
    assert found.pids == (11,)
    assert found.evidence[1].startswith("GPU 1 has 110.4 GiB left, enough for ")


@pytest.mark.parametrize(
    "per_s",
    [
        {0: 5.0, 1: 5.0, 2: 5.0},
        {0: 2.0, 1: 5.0},
        {0: 0.0, 1: 1.0},
        {0: 0.0, 1: -5.0},
        {0: None, 1: 5.0},
        {0: 0.0, 1: None},
        {1: 5.0},
    ],
)
def test_growth_that_is_small_or_everybodys_or_without_a_peer(per_s: dict[int, float | None]) -> None:
    assert said("gpu-memory-grows", growing(per_s)) == []


def test_growth_of_a_minute_may_be_a_beginning() -> None:
    assert said("gpu-memory-grows", growing({0: 0.0, 1: 20.0}, seconds=60)) == []


@pytest.mark.parametrize("mib", [lambda second: 4000 * (second > 20), lambda second: 300 * (second % 20)])
def test_a_jump_or_a_saw_is_no_growth(mib: Callable[[int], float]) -> None:
    def facts(second: int) -> Rows:
        return (*ranks(2), gpu(0, at=second), gpu(1, at=second), on_gpu(10, 0), on_gpu(11, 1, mib=500 + mib(second)))

    assert said("gpu-memory-grows", rounds(200, facts)) == []


# gpu-not-own


def strays(*amounts: tuple[int, int, float | None], count: int = 4) -> list[Remark]:
    """Ranks with 20 GiB each on their own devices, and (rank, device, MiB) more."""
    own = (on_gpu(10 + number, number, mib=20 * GIB) for number in range(count))
    more = (on_gpu(10 + number, device, mib=mib) for number, device, mib in amounts)
    return said("gpu-not-own", snapshot(*ranks(count), *map(gpu, range(8)), *own, *more))


def test_everybodys_context_on_gpu_0() -> None:
    (found,) = strays((1, 0, 480.0), (2, 0, 480.0), (3, 0, 480.0))
    assert found.summary == "ranks 1-3 each hold 480 MiB on GPU 0, which is rank 0's"
    assert (found.pids, found.gpu_uuids) == ((11, 12, 13), ("GPU-0",))
    assert found.evidence[0] == "together 1.4 GiB of the 140.4 GiB of GPU 0"
    assert "rank 1 (pid 11): 20.0 GiB on GPU 1, 480 MiB on GPU 0; LOCAL_RANK=1, CUDA_VISIBLE_DEVICES is not set" in (
        found.evidence
    )


@pytest.mark.parametrize(
    ("amounts", "summary"),
    [
        (((3, 0, 480.0),), "rank 3 holds 480 MiB on GPU 0, which is rank 0's"),
        (((1, 0, 480.0), (3, 0, 520.0)), "ranks 1 and 3 each hold 480 MiB to 520 MiB on GPU 0, which is rank 0's"),
        (((1, 0, None),), "rank 1 has a context on GPU 0, which is rank 0's"),
        (((1, 7, 480.0), (2, 7, 480.0)), "ranks 1-2 each hold 480 MiB on GPU 7, which belongs to none of them"),
        (((2, 0, 9000.0),), "rank 2 holds 8.8 GiB on GPU 0, which is rank 0's"),
    ],
)
def test_who_is_where_it_does_not_belong(amounts: tuple[tuple[int, int, float | None], ...], summary: str) -> None:
    assert [found.summary for found in strays(*amounts)] == [summary]


@pytest.mark.parametrize(
    "amounts",
    [
        (),
        ((1, 7, 480.0),),
        ((1, 0, 19 * GIB),),
    ],
)
def test_a_device_of_its_own_or_two_that_are_used_alike(amounts: tuple[tuple[int, int, float | None], ...]) -> None:
    assert strays(*amounts) == []


def test_a_program_without_ranks_may_use_all_devices() -> None:
    now = snapshot(process(), gpu(0), gpu(1), on_gpu(ROOT, 0), on_gpu(ROOT, 1, mib=9000))
    assert said("gpu-not-own", now) == []


# gpu-shared


def test_two_ranks_on_one_gpu() -> None:
    (found,) = said("gpu-shared", snapshot(*ranks(), gpu(0), gpu(1), on_gpu(10), on_gpu(11)))
    assert found.summary == "ranks 0-1 share GPU 0"
    assert found.evidence[0] == "rank 0 (pid 10): 500 MiB; LOCAL_RANK=0, CUDA_VISIBLE_DEVICES is not set"


def test_more_ranks_than_gpus() -> None:
    (found,) = said("gpu-shared", snapshot(*ranks(), gpu(0), on_gpu(10), on_gpu(11)))
    assert found.evidence[0] == "2 ranks run on a machine with 1 GPU"


def test_clients_of_mps_share_on_purpose() -> None:
    contexts = (on_gpu(pid, kinds=("mps",)) for pid in (10, 11))
    (found,) = said("gpu-shared", snapshot(*ranks(), gpu(0), *contexts))
    assert found.summary == "ranks 0-1 share GPU 0, as clients of MPS"
    assert found.advice == ("MPS is made for that: change it only if it is not intended.",)


HALVES = tuple(
    MigInstance(uuid=f"MIG-{number}", gpu_uuid="GPU-0", gpu_instance=number, compute_instance=0, name="3g.71gb")
    for number in (1, 2)
)


@pytest.mark.parametrize(
    ("parts", "told"), [((1, 2), []), ((1, 1), ["ranks 0-1 share MIG instance 1 of GPU 0"]), ((None, None), [])]
)
def test_instances_of_one_gpu_are_not_shared(parts: tuple[int | None, ...], told: list[str]) -> None:
    contexts = (
        on_gpu(10 + number, mig_instance=part, compute_instance=None if part is None else 0)
        for number, part in enumerate(parts)
    )
    now = snapshot(*ranks(), gpu(0, mig=True), *HALVES, *contexts)
    assert [found.summary for found in said("gpu-shared", now)] == told


@pytest.mark.parametrize(
    "contexts",
    [
        (on_gpu(10, 0), on_gpu(11, 1)),
        (on_gpu(10, 0, mib=9000), on_gpu(11, 1, mib=9000), on_gpu(11, 0)),
        (on_gpu(10, 0), on_gpu(30, 0)),
        (on_gpu(10, 0), on_gpu(900, 0)),
    ],
)
def test_devices_that_are_not_shared_by_ranks(contexts: Rows) -> None:
    assert said("gpu-shared", snapshot(*ranks(), worker(), gpu(0), gpu(1), *contexts)) == []
