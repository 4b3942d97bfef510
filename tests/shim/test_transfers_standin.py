"""Sending and receiving of CUDA memory, with the stand-in of `tests.ipc.standin`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpmon.model import ExportRecord, ImportRecord, Snapshot
from tests.patience import patience
from tests.shim.running import HOME, Job, Look, look, place

pytest.importorskip("torch")

PROGRAM = "device_tensors.py"


class Sharing:
    """A producer and a consumer that do as they are told."""

    def __init__(self, job: Job, looking: Look, child: int) -> None:
        self.job, self.child, self.looking = job, child, looking

    def do(self, *words: str) -> None:
        for word in words:
            self.job.tell(word)
            assert self.job.hear()["done"] == word

    def look(self) -> Snapshot:
        return self.looking.round()

    def exports(self) -> dict[int, ExportRecord]:
        """By slot, while all are in one refcounter."""
        return {row.slot: row for row in self.look().exports}

    def imports(self) -> dict[int, ImportRecord]:
        return {row.slot: row for row in self.look().imports}


@contextmanager
def sharing(folder: Path, method: str = "fork", *more_words: str) -> Iterator[Sharing]:
    more = {"MPMON_RUN_DIR": str(folder), "PYTHONPATH": str(HOME)}
    with Job(PROGRAM, method, "shim", *more_words, folder=None, **more) as job, look(job.pid) as looking:
        yield Sharing(job, looking, job.hear_pid())


def test_what_another_thread_sends_while_the_counts_are_read_is_not_over_with_the_standin(tmp_path: Path) -> None:
    with sharing(tmp_path) as both:
        both.do("put", "meanwhile")

        assert sorted(both.exports()) == [0, 1]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_who_sent_what_from_where_and_who_has_it_with_the_standin(method: str, tmp_path: Path) -> None:
    with sharing(tmp_path, method) as both:
        both.do("put", "put")
        snapshot = both.look()
        sent, received = snapshot.exports, snapshot.imports
        queue = next(row for row in snapshot.queue_records if row.pid == both.job.pid and row.kind == "Queue")
        assert [(row.pid, row.slot, row.size_bytes, row.device) for row in sent] == [
            (both.job.pid, 0, 1024, 0), (both.job.pid, 1, 1024, 0),
        ]  # fmt: skip
        assert {row.site for row in sent} == {place(PROGRAM, "PUT", "produce")}
        assert {row.object for row in (*sent, *received)} == {queue.object}
        assert [(row.pid, row.slot, row.file, row.again) for row in received] == [
            (both.child, 0, sent[0].file, False), (both.child, 1, sent[0].file, False),
        ]  # fmt: skip
        assert sent[0].file.startswith(f"torch_{both.job.pid}_")
        assert queue.put_at is not None
        assert queue.put_at - 1 < sent[1].sent_at <= received[1].received_at + 1e-4 <= snapshot.taken_at + 1e-4
        assert not any(row.dropped_at or row.synced for row in sent)
        both.do("end")


def test_a_storage_that_is_sent_again_is_received_again_with_the_standin(tmp_path: Path) -> None:
    """Which is over at once: its record stays until somebody looks for such."""
    with sharing(tmp_path, "fork", "unhurried") as both:
        both.do("put", "again")
        assert {slot: row.again for slot, row in both.imports().items()} == {0: False, 1: True}
        both.do("end")


def test_what_goes_another_way_than_a_queue_has_a_line_and_no_queue_with_the_standin(tmp_path: Path) -> None:
    with sharing(tmp_path) as both:
        both.do("share")
        (row,) = both.look().exports
        assert (row.object, row.site) == (None, place(PROGRAM, "SHARE", "produce"))
        both.do("end")


def test_from_limbo_to_released_to_collected_with_the_standin(tmp_path: Path) -> None:
    with sharing(tmp_path) as both:
        both.do("put", "put", "forget")
        # Looked at when the next ones are sent, or at once before collecting.
        both.do("collect")
        limbo = both.look()
        assert [row.dropped_at is not None for row in limbo.exports] == [True, True]
        (producer,) = [row for row in limbo.shims if row.pid == both.job.pid]
        assert producer.collected_at is not None
        both.do("drop")
        assert len(both.exports()) == 2, "released, and nobody has collected it yet"
        both.do("collect")
        assert both.exports() == {}
        both.do("end")


def test_what_the_consumer_let_go_of_is_over_with_the_standin(tmp_path: Path) -> None:
    with sharing(tmp_path) as both:
        both.do("put", "put", "drop", "collect")
        assert both.exports() == {}
        assert 0 in both.imports()
        for _ in patience():
            if 0 not in both.imports():
                break
            both.do("put")
        assert 0 not in both.imports(), "a consumer looks again when it receives something later"
        both.do("end")


@pytest.mark.parametrize("who", ["consumer", "producer"])
def test_records_of_one_that_was_killed_stay_with_the_standin(who: str, tmp_path: Path) -> None:
    with sharing(tmp_path) as both:
        both.do("put")
        both.look()
        os.kill(both.child if who == "consumer" else both.job.pid, signal.SIGKILL)
        if who == "producer":
            both.job.end()
            with look(both.child) as late:
                snapshot = late.round()
        else:
            snapshot = both.look()
            while any(row.pid == both.child and row.alive for row in snapshot.shims):
                snapshot = both.look()
        assert [row.slot for row in snapshot.exports] == [row.slot for row in snapshot.imports] == [0]
        dead = both.child if who == "consumer" else both.job.pid
        assert {row.pid for row in snapshot.shims if not row.alive} == {dead}


def test_more_sendings_than_one_refcounter_has_slots_with_the_standin(tmp_path: Path) -> None:
    with sharing(tmp_path) as both:
        # A fast machine sends most of them between two looks at the counts; the collection is one more.
        both.do("many", "collect", "put")
        snapshot = both.look()
        assert {row.dropped for row in snapshot.shims} == {0}
        assert len(snapshot.exports) < 5000, "those whose slots are 0 were given back"
        assert snapshot.exports[-1].synced, "torch has 1000 events"
        newest = max(snapshot.exports, key=lambda row: row.sent_at)
        assert newest.slot < 100
        both.do("end")
