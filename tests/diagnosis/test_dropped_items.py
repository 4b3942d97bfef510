"""Items that could not be pickled: the feeder thread of a queue drops them, and goes on."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import QueueState, Row
from tests.builders import (
    ROOT,
    blocked,
    frame,
    holds,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
    watched,
)

TOKENIZER, MODEL = 4121, 4122
REQUESTS, JOBS, RESULTS = "pipe:6", "pipe:7", "pipe:8"
WRITES_TO, READS_FROM = 5, 4

GETS = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 Queue.get")
FEEDS = "multiprocessing/queues.py:231 Queue._feed"
WAITS, PICKLES = "lib/threading.py:327 Condition.wait", "multiprocessing/reduction.py:51 ForkingPickler.dumps"


def gets(pid: int, on: str) -> tuple[Row, ...]:
    return (
        process(pid, parent=1 if pid == ROOT else ROOT), thread(pid),
        stack("main", *GETS, f"job.py:{pid % 100} work", pid=pid), blocked("read", on, pid=pid, ran_at=0.0),
    )  # fmt: skip


def pipe(name: str, *, reader: int, writers: tuple[int, ...]) -> tuple[Row, ...]:
    return (
        kernel_object(name, fill=0, capacity=65536), holds(reader, name, fd=READS_FROM, reads=True),
        *(holds(pid, name, fd=WRITES_TO, reads=False, writes=True) for pid in writers),
        QueueState(object=name, kind="Queue", pid=ROOT, items=0, unread_bytes=0, putters=writers, getters=(reader,)),
    )  # fmt: skip


def feeder(pid: int, *, last: str | None, end: int = WRITES_TO, does: str = WAITS) -> tuple[Row, ...]:
    """The feeder thread of a process, which sends to a descriptor; `last` is the type of what its variable `obj` is bound to."""
    tid, call = pid + 1000, frame(FEEDS)
    call = msgspec.structs.replace(call, known={"obj": last} if last else None, ends=(end,))
    return (
        thread(pid, tid), stack("QueueFeederThread", does, call, pid=pid, tid=tid),
        blocked("futex", f"futex:{pid}:0x40", pid=pid, tid=tid, ran_at=0.0),
    )  # fmt: skip


def job(*more: Row) -> Diagnosis:
    """The tokenizer waits for requests of main, the model for the tokenizer's jobs, main for the model's results."""
    return watched(
        snapshot(
            *gets(ROOT, RESULTS), *gets(TOKENIZER, REQUESTS), *gets(MODEL, JOBS),
            *pipe(REQUESTS, reader=TOKENIZER, writers=(ROOT,)), *pipe(JOBS, reader=MODEL, writers=(TOKENIZER,)),
            *pipe(RESULTS, reader=ROOT, writers=(MODEL,)), *more,
        )
    )  # fmt: skip


def blamed(found: Diagnosis) -> tuple[str, list[int]]:
    assert found.verdict is Verdict.HUNG, found.because
    first = found.findings[0]
    return first.cause, [suspect.pid for suspect in first.suspects]


def test_of_those_who_wait_for_each_other_it_is_the_one_whose_item_was_dropped() -> None:
    found = job(*feeder(TOKENIZER, last="Job"), *feeder(MODEL, last="memoryview"))
    assert blamed(found) == ("item-lost", [TOKENIZER])
    assert "process model waits" not in found.findings[0].summary
    assert f"feeder thread of pid {TOKENIZER}" in found.findings[0].evidence[0]


@pytest.mark.parametrize(
    "rows",
    [
        feeder(TOKENIZER, last="memoryview"),
        feeder(TOKENIZER, last=None),
        feeder(TOKENIZER, last="Job", end=WRITES_TO + 1),
        feeder(TOKENIZER, last="Job", does=PICKLES),
    ],
    ids=["it was sent", "nothing is known", "of another queue", "it is not over"],
)
def test_nothing_was_dropped(rows: tuple[Row, ...]) -> None:
    assert blamed(job(*rows))[0] != "item-lost"
