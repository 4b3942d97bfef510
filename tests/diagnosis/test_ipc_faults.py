"""Remarks on faults of sharing that were reported of torch: on facts, also those that only a GPU could show."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis import History
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Row
from tests.builders import ROOT, after, blocked, gpu, history, holds, on_gpu, process, snapshot, stack, thread
from tests.diagnosis.ipc_jobs import (
    CONSUMER,
    MIB,
    PIPE,
    case_of,
    consumer,
    got,
    limits,
    mapped,
    pair,
    producer,
    queue,
    record,
    refcounter,
    sent,
    shim,
    storage,
    told,
)

MAIN, OTHER = f"main (pid {ROOT})", f"child of main (pid {CONSUMER})"
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def counts(number: int) -> Row:
    return refcounter(*((slot, 1) for slot in range(number)))


# Limbo


@pytest.mark.parametrize(("blocks", "said"), [(1000, False), (1003, True)])
def test_a_thousand_blocks_in_limbo(blocks: int, said: bool) -> None:
    rows = [row for slot in range(blocks) for row in (sent(slot, dropped_at=1.0), got(slot))]
    found = told(case_of(*pair(*rows, counts(blocks))), "ipc-limbo")
    assert bool(found) is said
    if found:
        assert found[0].summary == f"1003 blocks 15.7 GiB of CUDA memory of {MAIN} are in limbo, all held by {OTHER}"
        assert found[0].pids == (ROOT, CONSUMER)


def test_what_is_released_is_in_limbo_no_more() -> None:
    rows = [sent(slot, dropped_at=1.0) for slot in range(1003)]
    assert told(case_of(*pair(*rows, refcounter())), "ipc-limbo") == []


# Rounds of sending


def test_memory_that_grows_with_each_round() -> None:
    rows = [
        sent(2 * sync + part, at=10.0 * sync + part / 100, dropped_at=40.0) for sync in range(3) for part in range(2)
    ]
    looked = snapshot(*pair(*rows, refcounter()), at=50.0)
    last = after(looked, 40.0)
    (remark,) = told(JobState(history(looked, last), last), "ipc-not-collected")
    assert remark.summary.startswith("6 blocks 96 MiB of CUDA memory released, not collected")
    assert remark.evidence[1] == "32 MiB more with each of 3 rounds of transfers"


# Dead producers


def dead(**more: object) -> tuple[Row, ...]:
    """A consumer that is left with three items of a producer that has died."""
    row = record(CONSUMER, puts=3, sent=3, put_site="job.py:4 in work", **more)
    return producer(), shim(ROOT), shim(CONSUMER, alive=False), queue(), record(), row


def test_items_of_a_dead_producer() -> None:
    (remark,) = told(case_of(*dead(descriptors=3)), "ipc-dead-producer")
    assert remark.summary == (
        f"3 items of dead producer {CONSUMER} in queue {PIPE} can never be received if they hold tensors"
    )
    assert remark.evidence == (
        f"it sent 3 descriptors with 3 items, put at job.py:4 in work, and only pid {CONSUMER} could have delivered them",
    )


def test_cuda_memory_of_a_dead_producer() -> None:
    (remark,) = told(case_of(*dead(), sent(pid=CONSUMER)), "ipc-dead-producer")
    assert "it sent 1 blocks of CUDA memory with 3 items" in remark.evidence[0]


@pytest.mark.parametrize(
    "rows",
    [
        dead(),
        (*dead(descriptors=3), queue(items=0)),
        (*dead(descriptors=3), record(puts=1)),
        (*dead(descriptors=3), queue(putters=(ROOT,))),
        (consumer(), *dead(descriptors=3)[:2], shim(CONSUMER), *dead(descriptors=3)[3:]),
    ],
    ids=["plain items", "all was received", "somebody else puts", "somebody else put, by its ledger", "it lives"],
)
def test_items_that_can_still_be_received(rows: tuple[Row, ...]) -> None:
    latest = {(type(row), getattr(row, "pid", 0)): row for row in rows}
    assert told(case_of(*latest.values()), "ipc-dead-producer") == []


# A receiver that grows


def growing(bytes_each: int, *, received: int = 200, rounds: int = 13) -> JobState:
    """A look every 11 s, and so many sendings received between two of them."""
    seen = History()
    for turn in range(rounds):
        resident = 300 * MIB + turn * received * bytes_each
        rows = (producer(), consumer(rss_bytes=resident), shim(ROOT), shim(CONSUMER, received=1 + turn * received))
        sample = snapshot(*rows, at=11.0 * turn)
        seen = seen.add(sample)
    assert seen.snapshot
    return JobState(seen, seen.snapshot)


def test_a_receiver_that_grows_with_each_sending() -> None:
    (remark,) = told(growing(64 << 10), "ipc-receiver-grows")
    assert remark.summary == (
        f"{OTHER} grows on the host by 64 KiB with each transfer of CUDA memory it receives: "
        "150 MiB in 2 min 12 s, 2400 transfers"
    )


@pytest.mark.parametrize("case", [growing(1 << 10), growing(64 << 10, rounds=8), growing(1 << 20, received=20)])
def test_a_receiver_that_does_not_grow_with_its_sendings(case: JobState) -> None:
    assert told(case, "ipc-receiver-grows") == []


# Addresses


def test_addresses_that_are_used_up() -> None:
    row = limits(CONSUMER, address_bytes=120 << 40, address_limit=1 << 47)
    (remark,) = told(case_of(*pair(row), shim(CONSUMER, received=240)), "address-space-near-limit")
    assert remark.summary == (
        f"{OTHER} has used up 120.0 TiB of 128.0 TiB of address space, and has received 240 transfers of CUDA memory"
    )
    usual = limits(CONSUMER, address_bytes=3 << 40, address_limit=1 << 47)
    assert told(case_of(*pair(usual)), "address-space-near-limit") == []


# Faults of versions of torch


def versions(ours: str | None, theirs: str | None, settings: dict[str, str] = EXPANDABLE) -> tuple[Row, ...]:
    sides = (producer(environment=settings), consumer(), shim(ROOT), shim(CONSUMER, received=37))
    ends = (holds(ROOT, PIPE), holds(CONSUMER, PIPE), mapped())
    return (*sides, *ends, limits(torch=ours), limits(CONSUMER, torch=theirs))


LOST = (sent(), counts(1), queue(items=0))
HELD = (sent(), got(), counts(1), queue(getters=(CONSUMER,)))


def test_fabric_handles_that_are_read_as_descriptors() -> None:
    (remark,) = told(case_of(*versions("2.11.0+cu128", "2.11.0+cu128"), *LOST, at=60.0), "ipc-torch-faults")
    assert remark.summary == (
        f"{MAIN} shares expandable segments with torch 2.11.0+cu128, where receivers read fabric handles as descriptors "
        "(pidfd_getfd: Bad file descriptor); 1 of its transfers never arrived"
    )


def test_segments_that_are_received_again_and_again() -> None:
    (remark,) = told(case_of(*versions("2.13.0", "2.13.0"), *HELD), "ipc-torch-faults")
    assert "torch 2.13.0, where each transfer of one segment gets a new handle" in remark.summary
    assert remark.summary.endswith("37 of its transfers were received")


def test_versions_that_do_not_read_each_others_handles() -> None:
    (remark,) = told(case_of(*versions("2.13.0", "2.11.0", {}), *HELD), "ipc-torch-faults")
    assert remark.summary == (
        f"{MAIN} sends CUDA memory with torch 2.13.0 to {OTHER} with torch 2.11.0, which cannot read its handles"
    )


@pytest.mark.parametrize(
    "rows",
    [
        (*versions("2.11.0", "2.11.0", {}), *LOST),
        (*versions("2.8.0", "2.8.0"), *LOST),
        (*versions(None, None), *LOST),
        (*versions("nightly", "2.13.0"), *LOST),
        (*versions("2.12.1", "2.12.1"), *HELD),
        (*versions("2.11.0", "2.13.0", {}), *HELD),
    ],
)
def test_versions_without_that_fault(rows: tuple[Row, ...]) -> None:
    assert told(case_of(*rows, at=60.0), "ipc-torch-faults") == []


# Contexts


@pytest.mark.parametrize(
    ("number", "mib", "said"), [(6, 420, True), (3, 420, False), (6, 4000, False), (4, 100, False)]
)
def test_a_context_for_each_process(number: int, mib: int, said: bool) -> None:
    pids = range(CONSUMER, CONSUMER + number)
    receivers = [
        row for pid in pids for row in (process(pid, parent=ROOT), shim(pid, received=1), on_gpu(pid, mib=mib))
    ]
    found = told(case_of(producer(), gpu(0), on_gpu(ROOT, mib=9000), *receivers), "ipc-contexts")
    assert bool(found) is said
    if found:
        assert found[0].summary == (
            "6 processes that receive CUDA memory take 420 MiB each of GPU 0, 2.5 GiB together: a CUDA context per process, "
            "not shared tensors"
        )


# Removed tensors


@pytest.mark.parametrize(("count", "said"), [(2, True), (None, False)])
def test_a_tensor_that_lost_its_name(count: int | None, said: bool) -> None:
    """Without a count it never had one: it was sent with its descriptor."""
    row = storage(1, 5 * MIB, deleted=True, count=count)
    found = told(case_of(producer(), consumer(), row, mapped(CONSUMER, row.id)), "shm-deleted")
    assert bool(found) is said
    if found:
        assert found[0].summary.startswith(
            f"1 tensor 5 MiB made by pid {CONSUMER} was removed from /dev/shm while in use"
        )


# Queues that nobody reads


def ending(*rows: Row, frame: str = "multiprocessing/queues.py:199 _finalize_join") -> JobState:
    """A process is at its end, and its feeder thread has waited for a minute."""
    threads = (thread(CONSUMER), thread(CONSUMER, CONSUMER + 1), thread())
    feeder = stack("QueueFeederThread", "multiprocessing/queues.py:260 _feed", pid=CONSUMER, tid=CONSUMER + 1)
    stacks = (stack("main", frame, pid=CONSUMER), feeder, stack("main", "train.py:7 step"))
    write = blocked("write", PIPE, pid=CONSUMER, tid=CONSUMER + 1, writes=True)
    ends = (queue(unread_bytes=61_453, getters=(ROOT,)), write)
    first = snapshot(producer(), consumer(), *threads, *stacks, *ends, *rows)
    last = after(first, 60.0)
    return JobState(history(first, last), last)


def test_a_process_that_cannot_end() -> None:
    (remark,) = told(ending(), "queue-undrained")
    assert remark.summary == (
        f"{OTHER} cannot exit: its feeder thread has been blocked in write for 1 min, and {MAIN} reads nothing from queue {PIPE}"
    )
    assert remark.evidence == ("61453 bytes of it are unread", f"{MAIN} is at train.py:7 in step")
    assert remark.pids == (ROOT, CONSUMER)


def test_a_process_that_does_not_end_may_wait() -> None:
    assert told(ending(frame="train.py:9 work"), "queue-undrained") == []


def test_facts_that_are_not_known_say_nothing() -> None:
    unknown = msgspec.structs.replace(limits(), address_bytes=None, address_limit=None, torch=None)
    assert told(case_of(producer(), unknown), "address-space-near-limit") == []
