"""What is written down of queues: blocked calls, lost objects, forks, other programs, a shim that comes late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mpmon.model import QueueRecord, Snapshot
from mpmon.shim.records import Record
from tests.shim.running import HOME, Job, environment, files, look, place, queue_of, run


def record(snapshot: Snapshot, pid: int, kind: str = "Queue") -> QueueRecord:
    (row,) = [row for row in snapshot.queue_records if (row.pid, row.kind) == (pid, kind)]
    return row


def test_objects_that_could_not_be_pickled_are_lost(tmp_path: Path) -> None:
    without = run("lost.py", folder=None)
    with_it = run("lost.py", folder=tmp_path)
    assert with_it.said == without.said == "[1, 2, 3]\n"
    assert (
        with_it.complained.count("TypeError: cannot pickle")
        == without.complained.count("TypeError: cannot pickle")
        == 2
    )
    row = queue_of(next(iter(files(tmp_path).values())))
    assert (row.puts, row.sent, row.lost, row.gets) == (5, 3, 2, 3)


def test_objects_that_were_put_at_other_lines_than_usual_are_told_apart() -> None:
    record, usual, other = Record(), object(), object()
    for obj, site in ((usual, 3), (other, 4)):
        record.note_site(obj, site)
    assert (record.site_of(usual), record.site_of(other)) == (3, 4)
    record.note_site(other, 3)
    assert record.site_of(other) == 3


def test_lines_that_put_without_waiting_are_told_apart(tmp_path: Path) -> None:
    """What they call puts at one and the same line."""
    code = (
        "import multiprocessing as m, os; queue = m.Queue()\n"
        "queue.put_nowait(1)\n"
        "queue.put_nowait(2)\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(tmp_path), check=False)
    row = queue_of(next(iter(files(tmp_path).values())))
    assert (row.puts, row.put_site) == (2, "<string>:3 in <module>")


def test_a_queue_with_one_end_closed_is_known_by_the_other(tmp_path: Path) -> None:
    assert run("one_end.py", folder=tmp_path).said == "10\n"
    child = max(files(tmp_path).values(), key=lambda file: file.name.start_ticks)
    row = queue_of(child, "SimpleQueue")
    assert (row.puts, row.put_site) == (5, place("one_end.py", "PUT", "produce"))


def blocked_on_both_sides(snapshot: Snapshot, parent: int, child: int) -> bool:
    full, empty = record(snapshot, child), record(snapshot, parent, "SimpleQueue")
    return full.putting and full.puts == 2 and empty.getting


def wait_until_it_holds_the_gil(pid: int) -> None:
    """Its main thread is in pause(2), called without giving the GIL back."""
    while "pause" not in Path(f"/proc/{pid}/wchan").read_text(encoding="utf-8"):
        assert psutil.pid_exists(pid)


@pytest.mark.parametrize("state", ["runs", "stopped", "holds the GIL"])
def test_who_is_blocked_since_when_and_where(state: str, tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path) as job, look(job.pid) as looking:
        child = job.hear_pid()
        job.hear()
        while not blocked_on_both_sides(looking.round(), job.pid, child):
            pass
        if state == "stopped":
            for pid in (job.pid, child):
                os.kill(pid, signal.SIGSTOP)
        if state == "holds the GIL":
            job.tell("hold")
            wait_until_it_holds_the_gil(job.pid)
        snapshot = looking.round()
    full, empty = record(snapshot, child), record(snapshot, job.pid, "SimpleQueue")
    assert blocked_on_both_sides(snapshot, job.pid, child)
    assert (full.capacity, full.put_site) == (2, place("blocked.py", "FULL", "produce"))
    assert full.put_at is not None
    assert empty.get_at is not None
    started = psutil.Process().create_time()
    assert started < full.put_at <= snapshot.taken_at
    assert started < empty.get_at <= snapshot.taken_at
    assert (empty.gets, empty.get_site) == (0, place("blocked.py", "EMPTY", "take"))


def test_rows_that_did_not_change_are_the_same_objects(tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path) as job, look(job.pid) as looking:
        child = job.hear_pid()
        job.hear()
        while not blocked_on_both_sides(looking.round(), job.pid, child):
            pass
        first, second = looking.round(), looking.round()
    for table in ("shims", "queue_records"):
        rows = list(zip(getattr(first, table), getattr(second, table), strict=True))
        assert rows
        assert all(before is after for before, after in rows)


def test_a_shim_that_comes_late_knows_the_feeder_that_runs_already(tmp_path: Path) -> None:
    more = {"MPMON_RUN_DIR": str(tmp_path), "PYTHONPATH": str(HOME)}
    with Job("late.py", folder=None, **more) as job:
        assert job.hear() == {"on": True, "again": True}
        job.hear()
        row = queue_of(files(tmp_path)[job.pid])
    assert (row.puts, row.sent, row.gets) == (1, 1, 1)
    assert (row.made_at, row.put_site) == (None, place("late.py", "LATE"))


def test_a_fork_begins_anew_and_leaves_the_file_of_its_parent_alone(tmp_path: Path) -> None:
    with Job("forks.py", folder=tmp_path) as job:
        heard = job.hear()
        parent, children = heard["parent"], heard["children"]
        assert isinstance(children, list)
        found = files(tmp_path)
        puts = {pid: [row.puts for row in file.queues if row.puts] for pid, file in found.items()}
        assert puts == {parent: [1], children[0]: [1], children[1]: [1]}
        job.tell()
        job.hear()


def test_a_process_that_becomes_another_program_has_a_new_file(tmp_path: Path) -> None:
    with Job("becomes.py", folder=tmp_path) as job, look(job.pid) as looking:
        job.hear()
        assert [row.puts for row in looking.round().queue_records] == [3]
        job.tell()
        job.hear()
        assert [row.puts for row in looking.round().queue_records] == [5]
        assert len(list(tmp_path.iterdir())) == 1


def test_two_jobs_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    with Job("becomes.py", folder=tmp_path) as one, Job("becomes.py", folder=tmp_path) as other:
        one.hear()
        other.hear()
        for job in (one, other):
            with look(job.pid) as looking:
                snapshot = looking.round()
                assert [row.pid for row in snapshot.shims] == [job.pid]
                assert [row.pid for row in snapshot.queue_records] == [job.pid]


def test_a_dead_producer_of_a_living_consumer_is_told_and_a_dead_stranger_is_not(tmp_path: Path) -> None:
    run("items.py", "fork", folder=tmp_path)
    with Job("blocked.py", folder=tmp_path) as job, look(job.pid) as looking:
        child = job.hear_pid()
        job.hear()
        while not blocked_on_both_sides(looking.round(), job.pid, child):
            pass
        os.kill(child, signal.SIGKILL)
        snapshot = looking.round()
        while any(row.pid == child and row.alive for row in snapshot.shims):
            snapshot = looking.round()
        assert {row.pid: row.alive for row in snapshot.shims} == {job.pid: True, child: False}
        assert record(snapshot, child).puts == 2
        with look(job.pid) as late:
            assert {row.pid: row.alive for row in late.round().shims} == {job.pid: True, child: False}
