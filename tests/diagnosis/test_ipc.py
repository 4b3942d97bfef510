"""Queues, sendings of CUDA memory and shared memory: what is made of the rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.diagnosis import History, Memo, diagnose
from mpmon.diagnosis.findings import Observation
from mpmon.diagnosis.ipc import Ipc, of
from mpmon.model import (
    ExportRecord,
    ImportRecord,
    Limits,
    QueueRecord,
    QueueState,
    Row,
    SemaphoreUse,
    SharedFile,
    SharedMemory,
    SharedUse,
    ShimProcess,
    Unknown,
)
from mpmon.reports import document, sharing
from tests.builders import (
    ROOT,
    blocked,
    frame,
    gpu,
    history,
    holds,
    kernel_object,
    on_gpu,
    process,
    snapshot,
    stack,
)
from tests.diagnosis.ipc_jobs import (
    CONSUMER,
    FILE,
    MIB,
    PIPE,
    READ,
    ROOM,
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
)
from tests.strategies import rows as arbitrary

GET = "multiprocessing/queues.py:103 get"


def seen(*rows: Row) -> Ipc:
    return case_of(*rows).ipc


# Queues


def test_the_content_of_a_queue_is_what_the_probe_found() -> None:
    (view,) = seen(producer(), queue(capacity=5)).queues
    assert (view.id, view.kind, view.depth, view.capacity, view.bytes_unread) == (PIPE, "Queue", 3, 5, 18)
    assert (view.name, view.puts, view.lost) == (None, None, None)
    assert "shim" in view.reasons["puts"]


def test_who_puts_and_who_gets_is_told_by_what_they_did() -> None:
    ends = [holds(pid, PIPE) for pid in (ROOT, CONSUMER)]
    (view,) = seen(producer(), consumer(), *ends, queue(putters=(ROOT,))).queues
    assert (view.producers, view.consumers) == ((ROOT,), (ROOT, CONSUMER))
    assert "producers" not in view.reasons
    assert view.reasons["consumers"] == "all processes with that end of its pipe; none was seen to use it"


def loading(*ends: tuple[int, str], **more: object) -> list[str | None]:
    """The names of the queues that a trainer takes from, into which nobody was seen to put; two workers have it and more."""
    workers = [process(pid, parent=ROOT, name="pt_data_worker") for pid in (4201, 4202)]
    held = [holds(pid, name) for pid, name in ((ROOT, PIPE), (4201, PIPE), (4202, PIPE), *ends)]
    own, other = queue(getters=(ROOT,), **more), queue(object="pipe:99", getters=(ROOT,))
    queues = [own, other] if ends else [own]
    return [view.name for view in seen(producer(), *workers, *held, *queues).queues]


def test_the_one_queue_that_a_trainer_takes_from_and_its_loaders_have_brings_its_batches() -> None:
    assert loading() == ["loader result queue"]


def test_of_two_such_queues_none_is_said_to_bring_batches() -> None:
    both = [(pid, "pipe:99") for pid in (ROOT, 4201, 4202)]
    assert loading(*both) == [None, None]


def test_a_worker_that_has_but_one_of_two_tells_which_one() -> None:
    assert loading((ROOT, "pipe:99"), (4202, "pipe:99")) == ["loader result queue", None]


def test_a_queue_that_others_than_loaders_have_may_bring_anything() -> None:
    stranger = process(4300, parent=ROOT)
    rows = (producer(), process(4201, parent=ROOT, name="pt_data_worker"), stranger)
    held = [holds(pid, PIPE) for pid in (ROOT, 4201, 4300)]
    assert [view.name for view in seen(*rows, *held, queue(getters=(ROOT,))).queues] == [None]
    assert loading(capacity=8) == [None]


def test_what_brings_batches_by_its_ends_only_is_not_remembered() -> None:
    worker = process(4201, parent=ROOT, name="pt_data_worker")
    sample = snapshot(producer(), worker, holds(ROOT, PIPE), holds(4201, PIPE), queue(getters=(ROOT,)))
    assert history(sample).queue_parts == {}


def test_an_end_of_the_pipe_is_for_reading_or_for_writing() -> None:
    ends = (holds(ROOT, PIPE, reads=False), holds(CONSUMER, PIPE, writes=False))
    (view,) = seen(producer(), consumer(), *ends, queue()).queues
    assert (view.producers, view.consumers) == ((ROOT,), (CONSUMER,))


def test_the_dead_do_not_use_a_queue() -> None:
    (view,) = seen(producer(), consumer(state="Z"), queue(putters=(ROOT,), getters=(CONSUMER,))).queues
    assert view.consumers == ()


def test_who_waits_at_a_queue() -> None:
    others = [process(pid, parent=ROOT) for pid in (1, 2, 3, 4)]
    waits = (
        blocked("futex", ROOM, pid=1),
        blocked("write", PIPE, pid=2, writes=True),
        blocked("read", PIPE, pid=3),
        blocked("futex", READ, pid=4),
    )
    (view,) = seen(producer(), *others, *waits, queue()).queues
    assert (view.blocked_put, view.blocked_get) == ((1, 2), (3, 4))
    assert (view.producers, view.consumers) == ((1, 2), (3, 4))


def test_the_lock_of_a_reader_that_waits_for_an_item_is_its_own() -> None:
    inside = stack("main", "multiprocessing/connection.py:378 _recv", GET, "job.py:4 work", pid=CONSUMER)
    waits = blocked("read", PIPE, pid=CONSUMER)
    (view,) = seen(producer(), consumer(), inside, waits, queue(read_locked=True)).queues
    assert view.read_lock is not None
    assert (view.read_lock.taken, view.read_lock.holders, view.read_lock.orphaned) == (True, (CONSUMER,), False)
    assert view.write_lock is not None
    assert (view.write_lock.taken, view.write_lock.holders) == (False, ())


@pytest.mark.parametrize(("count", "known", "orphaned"), [(0, True, True), (1, True, False), (0, False, False)])
def test_a_lock_is_lost_when_everybody_says_not_to_have_it(count: int, known: bool, orphaned: bool) -> None:
    rows = [
        producer(), consumer(), holds(ROOT, READ), holds(CONSUMER, READ), queue(read_locked=True),
        SemaphoreUse(pid=ROOT, object=READ, count=0, max_value=1), blocked("futex", READ, pid=ROOT),
    ]  # fmt: skip
    if known:
        rows.append(SemaphoreUse(pid=CONSUMER, object=READ, count=count, max_value=1))
    (view,) = seen(*rows).queues
    assert view.read_lock is not None
    assert view.read_lock.orphaned is orphaned
    assert view.read_lock.holders == ((CONSUMER,) if count else ())


def loader(number: int) -> Row:
    """A DataLoader's worker, by its name."""
    return process(CONSUMER + number, parent=ROOT, name="pt_data_worker")


@pytest.mark.parametrize(
    ("putters", "getters", "name"),
    [
        ((ROOT,), (CONSUMER + 1,), "loader index queue 1"),
        ((CONSUMER, CONSUMER + 1), (ROOT,), "loader result queue"),
        ((CONSUMER, CONSUMER + 1), (CONSUMER + 9,), None),
        ((ROOT,), (CONSUMER, CONSUMER + 1), None),
    ],
)
def test_queues_of_a_loader_are_known_by_who_uses_them(
    putters: tuple[int, ...], getters: tuple[int, ...], name: str | None
) -> None:
    others = process(CONSUMER + 9, parent=ROOT)
    (view,) = seen(producer(), loader(0), loader(1), others, queue(putters=putters, getters=getters)).queues
    assert view.name == name


def names_over_time(*rounds: tuple[Row, ...]) -> list[str | None]:
    """The name of the queue in each of these rounds, as a view is told it."""
    found: list[str | None] = []
    seen_so_far, results = History(), Memo()
    for second, rows in enumerate(rounds):
        now = snapshot(*rows, at=float(second))
        seen_so_far = seen_so_far.add(now)
        diagnosis = diagnose(seen_so_far, results)
        shown = of(Observation(snapshot=now, diagnosis=diagnosis, watched_s=float(second)))
        found.append(shown.queues[0].name if shown.queues else None)
    return found


def test_a_queue_keeps_the_name_it_was_known_by() -> None:
    """Workers come and go, and not every reading finds somebody who has put; the pipe is the same."""
    used = producer(), loader(0), loader(1), queue(putters=(CONSUMER, CONSUMER + 1), getters=(ROOT,))
    unused = producer(), loader(0), loader(1), queue()
    others = producer(), process(CONSUMER + 5, parent=ROOT), queue(putters=(CONSUMER + 5,), getters=(ROOT,))
    assert names_over_time(unused, used, unused, others) == [None, *["loader result queue"] * 3]


def test_another_queue_does_not_inherit_the_name() -> None:
    used = producer(), loader(0), queue(putters=(CONSUMER,), getters=(ROOT,))
    assert names_over_time(used, (producer(), loader(0)), (producer(), loader(0), queue())) == [
        "loader result queue",
        None,
        None,
    ]


def test_the_number_of_an_index_queue_may_become_more_exact() -> None:
    worker = stack("main", frame("torch/utils/data/_utils/worker.py:334 _worker_loop", worker_id="3"), pid=CONSUMER)
    used = producer(), loader(0), queue(putters=(ROOT,), getters=(CONSUMER,))
    assert names_over_time(used, (*used, worker)) == ["loader index queue 0", "loader index queue 3"]


def test_a_queue_is_called_after_the_line_that_made_it() -> None:
    rows = (
        record(made_at="job.py:9 in main", puts=7, put_at=5.0, put_site="a.py:1 in f"),
        record(CONSUMER, gets=3, put_at=4.0, put_site="b.py:2 in g", lost=2),
    )
    (view,) = seen(producer(), consumer(), *rows).queues
    assert (view.name, view.puts, view.gets, view.lost) == ("made at job.py:9 in main", 7, 3, 2)
    assert (view.producers, view.consumers, view.put_site) == ((ROOT,), (CONSUMER,), "a.py:1 in f")
    assert (view.depth, view.reasons["depth"]) == (
        None,
        "the memory of the processes that have it has not been read yet",
    )


def test_why_a_depth_is_not_known() -> None:
    refused = Unknown(table="queues", pid=ROOT, reason="memory cannot be read (operation not permitted)")
    (view,) = seen(producer(), record(puts=1), refused).queues
    assert view.reasons["depth"] == refused.reason


def test_unread_bytes_are_also_those_a_waiting_thread_showed() -> None:
    (view,) = seen(producer(), queue(unread_bytes=None), kernel_object(PIPE, fill=0)).queues
    assert view.bytes_unread == 0


# Sendings


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((sent(), refcounter((0, 1))), "in-flight"),
        ((sent(), got(), refcounter((0, 1))), "held"),
        ((sent(), got(again=True), refcounter((0, 1))), "in-flight"),
        ((sent(), got(), refcounter((0, -1))), "rebuilt-twice"),
        ((sent(), got(), refcounter((0, 2))), "rebuilt-twice"),
        ((sent(dropped_at=2.0), refcounter()), "released-not-collected"),
        ((sent(), got()), "unknown"),
    ],
)
def test_states_of_a_sending(facts: tuple[Row, ...], state: str) -> None:
    (view,) = seen(*pair(*facts)).exports
    assert view.state == state
    assert ("state" in view.reasons) == (state == "unknown")


def test_what_is_given_back_is_not_told() -> None:
    assert seen(*pair(sent(), got(), refcounter())).exports == ()


def test_a_dead_consumer_holds_what_it_had() -> None:
    (view,) = seen(producer(), shim(ROOT), shim(CONSUMER, alive=False), sent(), got(), refcounter((0, 1))).exports
    assert (view.state, view.consumers) == ("held-by-dead", (CONSUMER,))


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ((consumer(),), f"pid {CONSUMER} may have it, but has no shim"),
        (
            (consumer(), shim(CONSUMER, dropped=3)),
            f"the shim of pid {CONSUMER} had no room to record everything it received",
        ),
    ],
)
def test_who_may_have_it_unseen(others: tuple[Row, ...], why: str) -> None:
    rows = (producer(), shim(ROOT), *others, holds(CONSUMER, PIPE), sent(), refcounter((0, 1)))
    (view,) = seen(*rows).exports
    assert (view.state, view.reasons["state"]) == ("unknown", why)


def test_a_dead_producer_took_its_memory_with_it() -> None:
    rows = (process(1), consumer(), shim(ROOT, alive=False), shim(CONSUMER), sent(), got(), refcounter((0, 1)))
    sample = snapshot(*rows, root=1)
    (view,) = Ipc(sample, {}, {}).exports
    assert (view.state, view.reasons["state"]) == ("unknown", "its producer has ended, and its memory with it")


def test_a_count_that_was_cut_off_is_not_known() -> None:
    told, untold = seen(*pair(sent(5000), refcounter((0, 1), live_slots=9))).exports
    assert (told.slot, told.refcount, told.state) == (5000, None, "unknown")
    assert (untold.slot, untold.exports) == (None, 9)


@pytest.mark.parametrize(("devices", "uuid"), [("1", "GPU-1"), ("1,0", "GPU-1"), (None, "GPU-0"), ("", None)])
def test_the_device_is_the_one_the_producer_calls_so(devices: str | None, uuid: str | None) -> None:
    environment = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    sides = (producer(environment=environment), consumer(), shim(ROOT), shim(CONSUMER))
    (view,) = seen(*sides, gpu(0), gpu(1), sent(), got(), refcounter((0, 1))).exports
    assert view.gpu_uuid == uuid
    assert ("gpu_uuid" in view.reasons) == (uuid is None)


def test_without_the_shim_there_is_one_row_a_refcounter() -> None:
    counts = refcounter((3, 1), (4, 1))
    (view,) = seen(producer(), mapped(), counts).exports
    assert (view.producer, view.file, view.slot, view.exports, view.refcount) == (ROOT, FILE, None, 2, 1)
    assert (view.state, view.size_bytes) == ("unknown", None)
    assert view.reasons["state"].startswith("probably a refcounter; ")
    (view,) = seen(producer(), mapped(), counts, on_gpu(ROOT)).exports
    assert view.reasons["state"].startswith("only the shim")


@pytest.mark.parametrize(("context", "state"), [((on_gpu(ROOT),), "rebuilt-twice"), ((), "unknown")])
def test_an_odd_count_is_believed_of_a_process_with_a_context(context: tuple[Row, ...], state: str) -> None:
    (view,) = seen(producer(), mapped(), refcounter((3, 1), (4, -1)), *context).exports
    assert (view.state, view.refcount) == (state, None)


def test_a_refcounter_nobody_has_mapped_is_not_told() -> None:
    assert seen(producer(), refcounter((3, 1))).exports == ()


def test_who_holds_how_much_of_whom() -> None:
    later = (sent(1, site="train.py:20 in tail"), sent(2), got(0), got(1), got(2))
    (found,) = seen(*pair(sent(0), *later, refcounter((0, 1), (1, 1), (2, 1)))).pairs
    assert (found.producer, found.consumer, found.blocks, found.bytes) == (ROOT, CONSUMER, 3, 48 * MIB)
    assert (found.queue, found.site) == (PIPE, "train.py:16 in step")


# Shared memory


def test_the_memory_is_the_one_the_root_sees() -> None:
    systems = (memory(5, pids=(CONSUMER,), device=1), memory(7, pids=(ROOT,), device=2))
    found = seen(producer(), consumer(), *systems).memory
    assert found is not None
    assert (found.device, found.used_bytes, [other.pids for other in found.others]) == (2, 7, [(CONSUMER,)])


def test_who_made_and_who_has_what_lies_there() -> None:
    files = (storage(1, 5 * MIB), storage(2, 7 * MIB), storage(3, MIB, creator=9, creator_alive=False))
    uses = (mapped(ROOT, "file:00:1b:1"), mapped(CONSUMER, "file:00:1b:2", maps=0, descriptors=1))
    counted = (limits(storages=1, storage_bytes=5 * MIB), limits(CONSUMER))
    found = seen(producer(), consumer(), memory(), *files, *uses, *counted).memory
    assert found is not None
    assert [(row.pid, row.bytes, row.created_bytes) for row in found.by_process] == [
        (CONSUMER, 0, 12 * MIB), (ROOT, 5 * MIB, 0),
    ]  # fmt: skip
    assert (found.in_transit, found.in_transit_bytes) == (1, 7 * MIB)
    assert [(row.path, row.creator) for row in found.orphans] == [("/dev/shm/torch_9_3_0", 9)]


def test_a_file_of_the_dead_that_somebody_has_is_no_orphan() -> None:
    kept = storage(3, MIB, creator=9, creator_alive=False)
    found = seen(producer(), memory(), kept, mapped(ROOT, kept.id)).memory
    assert found is not None
    assert found.orphans == ()


def test_a_creator_is_known_by_what_it_calls_itself() -> None:
    inner = consumer(namespace_pid=7)
    found = seen(producer(), inner, memory(), limits(CONSUMER), storage(1, MIB, creator=7)).memory
    assert found is not None
    assert [(row.pid, row.created_bytes) for row in found.by_process] == [(CONSUMER, MIB)]


# For people


def observed(*rows: Row) -> Observation:
    seen_so_far = history(snapshot(*rows))
    assert seen_so_far.snapshot is not None
    return Observation(snapshot=seen_so_far.snapshot, diagnosis=diagnose(seen_so_far), watched_s=1.0)


def test_a_view_of_the_screen_is_handed_the_same() -> None:
    rows = (producer(), loader(0), loader(1), queue(putters=(ROOT,), getters=(CONSUMER + 1,)))
    seen_there = of(observed(*rows))
    assert seen_there.queues == seen(*rows).queues
    assert seen_there.queues[0].name == "loader index queue 1"
    assert seen_there.ground.who(CONSUMER + 1) == f"dataloader worker 1 (pid {CONSUMER + 1})"


def test_nothing_shared_is_nothing_said() -> None:
    assert list(sharing.lines(observed(producer(), memory(1 << 40)))) == []


def test_the_lines_of_the_report() -> None:
    rows = pair(
        queue(putters=(ROOT,), capacity=3), blocked("futex", ROOM, pid=ROOT), sent(), got(), refcounter((0, 1)),
        memory(5 * MIB), storage(1, MIB), limits(storages=1, storage_bytes=MIB), mapped(ROOT, "file:00:1b:1"),
    )  # fmt: skip
    assert list(sharing.lines(observed(*rows))) == [
        "",
        "  queues:",
        f"    - queue {PIPE}: 3 of 3 items, 18 bytes unread; main (pid {ROOT}) blocked in put",
        "",
        "  CUDA memory sent to other processes:",
        (
            f"    - child of main (pid {CONSUMER}) holds 1 block (16 MiB) of main (pid {ROOT}), oldest 0 s, queue {PIPE}, "
            "sent from train.py:16 in step"
        ),
        "",
        "  shared memory, /dev/shm 5 MiB of 64 MiB used:",
        f"    - main (pid {ROOT}) has 1 tensor (1 MiB) mapped",
        f"    - child of main (pid {CONSUMER}) created 1 tensor (1 MiB) of what is now there",
    ]


KINDS = (QueueState, QueueRecord, ExportRecord, ImportRecord, SharedFile, SharedUse, SharedMemory, Limits, ShimProcess)


@given(st.lists(st.one_of(*map(arbitrary, KINDS)), max_size=12))
@settings(max_examples=300)
def test_any_rows_can_be_joined_and_told(found: list[Row]) -> None:
    everything = observed(producer(), consumer(), *found)
    assert document.document(everything).queues == of(everything).queues
    assert all(isinstance(line, str) for line in sharing.lines(everything))
