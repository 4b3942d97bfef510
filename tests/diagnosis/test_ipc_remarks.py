"""What is remarked of queues, sendings of CUDA memory and shared memory, and what is not."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.remarks import remarks
from mpmon.model import Row
from tests.builders import ROOT, gpu, holds, on_gpu, process
from tests.diagnosis.ipc_jobs import (
    CONSUMER,
    FILE,
    MIB,
    PIPE,
    case_of,
    consumer,
    got,
    limits,
    mapped,
    memory,
    pair,
    producer,
    queue,
    record,
    refcounter,
    sent,
    shim,
    storage,
    told,
    watched_for,
)

MAIN, OTHER = f"main (pid {ROOT})", f"child of main (pid {CONSUMER})"


def counts(number: int) -> Row:
    return refcounter(*((slot, 1) for slot in range(number)))


# What a healthy job shows


def test_nothing_is_said_of_a_healthy_exchange() -> None:
    window = [row for slot in range(8) for row in (sent(slot, at=590 + slot), got(slot, at=591 + slot))]
    weights = [row for slot in range(300) for row in (sent(slot + 8), got(slot + 8))]
    under_way = (sent(400, at=599.0), refcounter(*((slot, 1) for slot in (*range(308), 400))))
    calm = (
        memory(40 * MIB),
        limits(storages=200, storage_descriptors=400, descriptors=500),
        queue(items=5),
        record(puts=9),
    )
    job = case_of(*pair(*window, *weights, *under_way, *calm), at=600.0)
    assert len(job.ipc.exports) == 309
    assert remarks(job) == ()


# Rebuilt twice


def test_one_that_was_rebuilt_twice() -> None:
    job = case_of(*pair(sent(3), got(3), refcounter((3, -1))))
    (remark,) = told(job, "ipc-rebuilt-twice")
    assert remark.summary == f"1 transfer of CUDA memory of {MAIN} was rebuilt more than once (count -1)"
    assert remark.evidence == (f"/dev/shm/{FILE}, slot 3, sent at train.py:16 in step",)
    assert remark.pids == (ROOT, CONSUMER)


def test_a_tensor_that_looks_like_a_refcounter_is_none() -> None:
    strange = (producer(), mapped(), refcounter((3, 7)))
    assert told(case_of(*strange), "ipc-rebuilt-twice") == []
    assert len(told(case_of(*strange, on_gpu(ROOT)), "ipc-rebuilt-twice")) == 1


# Leaks


def test_what_a_dead_consumer_had() -> None:
    rows = (producer(), shim(ROOT), shim(CONSUMER, alive=False), sent(0), sent(1), got(0), got(1), counts(2))
    (remark,) = told(case_of(*rows, at=9.0), "ipc-leak-by-death")
    assert remark.summary == (
        f"2 blocks 32 MiB of CUDA memory of {MAIN} stay allocated forever: pid {CONSUMER} had received them and died"
    )
    assert remark.pids == (ROOT, CONSUMER)


def kept(number: int, span_s: float) -> list[Row]:
    """So many blocks, sent evenly over so many seconds, all of them held."""
    moments = [span_s * slot / number for slot in range(number)]
    return [row for slot, at in enumerate(moments) for row in (sent(slot, at=at), got(slot, at=at + 0.1))]


def test_a_consumer_that_keeps_more_and_more() -> None:
    job = case_of(*pair(*kept(20, 120.0), counts(20)), at=120.0)
    (remark,) = told(job, "ipc-leak-by-consumer")
    assert (
        remark.summary == f"{OTHER} holds 20 blocks 320 MiB of CUDA memory of {MAIN}, a number that has grown for 2 min"
    )
    assert remark.evidence == (f"through queue {PIPE}, sent at train.py:16 in step",)
    assert remark.pids == (CONSUMER, ROOT)


@pytest.mark.parametrize(
    ("number", "span_s", "now_s"),
    [(20, 1.0, 600.0), (20, 30.0, 30.0), (10, 120.0, 120.0)],
    ids=["weights, sent once", "a window of batches", "a few"],
)
def test_what_is_no_leak(number: int, span_s: float, now_s: float) -> None:
    job = case_of(*pair(*kept(number, span_s), counts(number)), at=now_s)
    assert {view.state for view in job.ipc.exports} == {"held"}
    assert remarks(job) == ()


# Never received


def test_one_that_later_ones_have_passed() -> None:
    rows = pair(sent(0), sent(1, at=5.0), got(1, at=6.0), counts(2))
    assert told(case_of(*rows, at=20.0), "ipc-never-received") == []
    (remark,) = told(case_of(*rows, at=60.0), "ipc-never-received")
    assert (
        remark.summary
        == f"1 transfer of CUDA memory (16 MiB) of {MAIN} was never received, the oldest was sent 1 min ago"
    )
    assert remark.evidence == (f"what was sent after it through {PIPE} arrived 54 s ago, sent at train.py:16 in step",)


def test_earlier_ones_have_not_passed_it() -> None:
    rows = pair(sent(0), got(0, at=1.0), sent(1, at=5.0), counts(2))
    assert told(case_of(*rows, at=60.0), "ipc-never-received") == []


@pytest.mark.parametrize(("items", "lost"), [(0, True), (1, False), (None, False)])
def test_one_whose_queue_is_empty(items: int | None, lost: bool) -> None:
    rows = pair(sent(0), counts(1), queue(items=items))
    assert bool(told(case_of(*rows, at=60.0), "ipc-never-received")) is lost


def test_one_that_nobody_can_get_any_more() -> None:
    rows = (producer(), shim(ROOT), holds(ROOT, PIPE), sent(0), counts(1))
    assert told(case_of(*rows, at=60.0), "ipc-never-received") == []
    (remark,) = told(case_of(*rows, at=400.0), "ipc-never-received")
    assert remark.evidence == (f"no process but its producer has {PIPE}, sent at train.py:16 in step",)


def test_what_a_process_without_a_shim_may_have_is_not_called_lost() -> None:
    rows = (producer(), consumer(), shim(ROOT), holds(CONSUMER, PIPE), sent(0), counts(1), queue(items=0))
    assert told(case_of(*rows, at=900.0), "ipc-never-received") == []


# Not collected


def released(seconds_ago: float, now_s: float = 100.0) -> Row:
    moment = case_of(producer(), at=now_s).now - seconds_ago
    return refcounter(released=((0, moment),))


def test_memory_that_waits_to_be_collected() -> None:
    job = case_of(*pair(sent(0, dropped_at=1.0, size_bytes=16 << 30), released(40.0)), at=100.0)
    (remark,) = told(job, "ipc-not-collected")
    assert (
        remark.summary == f"1 block 16.0 GiB of CUDA memory released, not collected: torch.cuda.ipc_collect() in {MAIN}"
    )
    assert remark.evidence[0].startswith("their counts have been 0 for 40 s")


@pytest.mark.parametrize(
    ("size", "ago", "collected"),
    [(16 << 30, 5.0, None), (MIB, 40.0, None), (16 << 30, 40.0, 20.0)],
    ids=["just now", "hardly anything", "collected since"],
)
def test_what_need_not_be_collected(size: int, ago: float, collected: float | None) -> None:
    now = case_of(producer(), at=100.0).now
    collector = shim(ROOT, collected_at=None if collected is None else now - collected)
    others = (producer(), consumer(), shim(CONSUMER), mapped())
    job = case_of(*others, collector, sent(0, dropped_at=1.0, size_bytes=size), released(ago), at=100.0)
    assert [view.state for view in job.ipc.exports] == ["released-not-collected"]
    assert remarks(job) == ()


def test_what_was_released_before_mpmon_came_is_as_old_as_the_watch() -> None:
    rows = pair(sent(0, dropped_at=1.0), refcounter())
    assert told(watched_for(10.0, *rows), "ipc-not-collected") == []
    assert len(told(watched_for(31.0, *rows), "ipc-not-collected")) == 1


# Sent with a wait


@pytest.mark.parametrize(("waited", "said"), [(9, False), (10, True)])
def test_sendings_that_wait_for_the_stream(waited: int, said: bool) -> None:
    slots = [sent(slot, synced=slot < waited) for slot in range(12)]
    found = told(case_of(*pair(*slots, counts(12))), "ipc-sync-mode")
    assert bool(found) is said
    if found:
        assert found[0].summary.startswith(f"{MAIN} has 12 transfers of CUDA memory outstanding, and no event left")
        assert found[0].evidence == ("10 of them were sent with a full synchronization, most at train.py:16 in step",)


# Lost items


def test_items_that_could_not_be_sent() -> None:
    rows = (record(lost=2, lost_site="job.py:4 in work", made_at="job.py:9 in main"), record(CONSUMER))
    (remark,) = told(case_of(producer(), consumer(), *rows), "items-lost")
    assert remark.summary == (
        f"2 items were put into queue {PIPE}, made at job.py:9 in main but could not be sent: no process will ever get them"
    )
    assert remark.evidence == (f"{MAIN} lost 2; the last one was put at job.py:4 in work",)
    assert remark.pids == (ROOT,)
    assert not any("CACHING" in line for line in remark.advice)


def test_items_that_could_not_be_sent_without_the_caching_allocator() -> None:
    rows = (record(lost=1), record(CONSUMER))
    (remark,) = told(case_of(*sides({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, {}), *rows), "items-lost")
    assert any("unset PYTORCH_NO_CUDA_MEMORY_CACHING" in line for line in remark.advice)


# /dev/shm


@pytest.mark.parametrize(
    ("used", "size", "full"),
    [
        (63 * MIB, 64 * MIB, True),
        (50 * MIB, 64 * MIB, False),
        (920 << 30, 1 << 40, False),
        (1010 << 30, 1 << 40, True),
        (0, 0, False),
    ],
)
def test_a_full_dev_shm(used: int, size: int, full: bool) -> None:
    rows = (producer(), consumer(), memory(used, size), storage(1, 61 * MIB), storage(2, MIB, creator=ROOT))
    found = told(case_of(*rows), "shm-near-full")
    assert bool(found) is full
    if found:
        assert found[0].evidence == (f"61 MiB by {OTHER}", f"1 MiB by {MAIN}")
        assert found[0].pids == (CONSUMER, ROOT)


@pytest.mark.parametrize(
    ("files", "size", "said"),
    [(1, 64 * MIB, True), (1, 80_064, False), (32, 80_064, True), (0, 0, False)],
)
def test_what_dead_jobs_left(files: int, size: int, said: bool) -> None:
    left = [storage(number, size, creator=9, creator_alive=False) for number in range(files)]
    found = told(case_of(producer(), memory(0, 64 << 30), *left), "shm-orphans")
    assert bool(found) is said
    if found:
        assert found[0].evidence[0].endswith("made by pid 9, which is dead")


def test_a_large_share_of_a_small_dev_shm() -> None:
    left = storage(1, MIB, creator=9, creator_alive=False)
    (remark,) = told(case_of(producer(), memory(0, 64 * MIB), left), "shm-orphans")
    assert remark.summary == "1 file 1 MiB in /dev/shm belong to dead processes"


def test_a_producer_and_a_consumer_in_different_rooms() -> None:
    apart = (memory(pids=(ROOT,), device=1), memory(pids=(CONSUMER,), device=2))
    rows = pair(sent(), counts(1), queue(getters=(CONSUMER,)))
    (remark,) = told(case_of(*rows, *apart), "shm-split")
    assert remark.summary == (
        f"{MAIN} sends CUDA memory to {OTHER}, but they do not see the same /dev/shm: none of it is ever released"
    )
    assert told(case_of(*rows, memory()), "shm-split") == []
    assert told(case_of(producer(), consumer(), queue(getters=(CONSUMER,)), *apart), "shm-split") == []


@pytest.mark.parametrize(("known", "said"), [((sent(),), True), ((on_gpu(ROOT),), True), ((), False)])
def test_a_refcounter_that_was_removed(known: tuple[Row, ...], said: bool) -> None:
    rows = (producer(), shim(ROOT), mapped(), refcounter((0, 1), deleted=True), *known)
    found = told(case_of(*rows), "shm-deleted")
    assert bool(found) is said
    if found:
        assert found[0].summary.endswith("1 transfers of CUDA memory can never be released")


# Limits


@pytest.mark.parametrize(("used", "said"), [(921, False), (922, True)])
def test_a_process_with_many_open_files(used: int, said: bool) -> None:
    row = limits(descriptors=used, descriptors_limit=1024, storage_descriptors=900)
    found = told(case_of(producer(), row), "descriptors-near-limit")
    assert bool(found) is said
    if found:
        assert found[0].summary == f"{MAIN} has 922 of 1024 files open, 900 of them tensors in shared memory"


def test_a_process_with_many_mappings() -> None:
    row = limits(maps=64_900, storages=63_000)
    (remark,) = told(case_of(producer(), row), "maps-near-limit")
    assert remark.summary == f"{MAIN} has 64900 of 65530 memory mappings, 63000 of them tensors in shared memory"


def test_limits_that_are_not_known() -> None:
    row = limits(descriptors=None, descriptors_limit=None, maps=None, maps_limit=None)
    assert remarks(case_of(producer(), row)) == ()


# Environments


def sides(ours: dict[str, str], theirs: dict[str, str], **more: object) -> tuple[Row, ...]:
    return producer(environment=ours), consumer(environment=theirs, **more), shim(ROOT), shim(CONSUMER)


def test_two_processes_that_count_devices_differently() -> None:
    rows = (gpu(0), gpu(1), sent(), got(), counts(1))
    apart = sides({"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "1,0"})
    (remark,) = told(case_of(*apart, *rows), "cuda-device-order")
    assert remark.summary == f"cuda:0 is GPU 0 in {MAIN} and GPU 1 in {OTHER}, which receives CUDA memory from it"
    same = sides({"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "0"})
    assert told(case_of(*same, *rows), "cuda-device-order") == []
    unread = msgspec.structs.replace(consumer(), environment=None)
    assert told(case_of(producer(), unread, shim(ROOT), shim(CONSUMER), *rows), "cuda-device-order") == []


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64, expandable_segments:True"}


def test_expandable_segments_that_do_not_arrive() -> None:
    rows = (holds(ROOT, PIPE), holds(CONSUMER, PIPE), sent(), counts(1), queue(items=0))
    (remark,) = told(case_of(*sides(EXPANDABLE, {}), *rows, at=60.0), "ipc-expandable-segments")
    assert "and 1 of its transfers never arrived" in remark.summary
    assert told(case_of(*sides({}, {}), *rows, at=60.0), "ipc-expandable-segments") == []
    held = (sent(), got(), counts(1), queue(items=0, getters=(CONSUMER,)))
    assert told(case_of(*sides(EXPANDABLE, {}), *held, at=60.0), "ipc-expandable-segments") == []
    (remark,) = told(case_of(*sides(EXPANDABLE, {}, uid=1001), *held, at=60.0), "ipc-expandable-segments")
    assert f"and pid {CONSUMER} is another user's" in remark.summary


def test_a_process_of_nobody_is_not_asked_for() -> None:
    strangers = (process(), record(7, lost=1), sent(pid=7), refcounter((0, 1), creator=7, deleted=True))
    assert {remark.topic for remark in remarks(case_of(*strangers))} <= {"items-lost"}
