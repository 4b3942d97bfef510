"""Tensors in shared memory, of both sharing strategies, and the /dev/shm they lie in."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc import MemoryView, SharerView
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import SharedFile
from mpmon.probes.ipc.storages import REFCOUNTER
from tests.ipc.looking import files_of, looking_at
from tests.ipc.running import PROGRAMS, Job, kill, stop

pytestmark = pytest.mark.live

TENSORS = str(PROGRAMS / "tensors.py")
SIZE = 200_000
PAGES = 200_704
"""The same in whole pages."""


def memory(job: JobState) -> MemoryView:
    assert job.ipc.memory
    return job.ipc.memory


def share(job: JobState, pid: int) -> SharerView:
    (row,) = [row for row in memory(job).by_process if row.pid == pid]
    return row


def told(job: JobState, topic: str) -> Remark | None:
    return next((remark for remark in remarks(job) if remark.topic == topic), None)


def uses(job: JobState) -> set[tuple[int, int, int]]:
    """Pid, mappings and descriptors of the one file."""
    return {(row.pid, row.maps, row.descriptors) for row in job.snapshot.shared_uses}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_tensor_that_is_sent_with_its_descriptor(method: str) -> None:
    with Job("tensors.py", "file_descriptor", method) as running:
        child = running.hear()["child"]
        with looking_at(running.pid) as looking:
            assert files_of(looking.round()) == []
            running.order(f"send 1 {SIZE}")
            job = looking.round()
            (file,) = files_of(job)
            assert (file.kind, file.deleted, file.size_bytes, file.creator) == ("storage", True, PAGES, child)
            assert file.creator_alive
            # The producer keeps its own, and one for the receiver to take.
            assert uses(job) == {(child, 1, 2)}
            running.order("forget")
            job = looking.round()
            assert uses(job) == {(child, 0, 1)}
            assert (memory(job).in_transit, memory(job).in_transit_bytes) == (1, PAGES)
            running.order("take 1")
            job = looking.round()
            assert uses(job) == {(running.pid, 1, 1)}
            assert memory(job).in_transit == 0
            assert (share(job, running.pid).bytes, share(job, child).created_bytes) == (PAGES, PAGES)
            running.order("drop")
            assert files_of(looking.round()) == []


def test_a_tensor_that_is_sent_by_its_name() -> None:
    with Job("tensors.py", "file_system", "fork") as running:
        child = running.hear()["child"]
        with looking_at(running.pid) as looking:
            running.order(f"send 1 {SIZE}")
            job = looking.round()
            (file,) = files_of(job)
            assert (file.kind, file.deleted, file.size_bytes, file.creator) == ("storage", False, 64 + SIZE, child)
            assert (uses(job), file.count) == ({(child, 1, 0)}, 2)
            # Its own version says which CUDA it was built for; that of the package may not.
            (torch,) = {row.torch for row in job.snapshot.limits if row.pid in (running.pid, child)}
            assert (torch or "").partition("+")[0] == version("torch").partition("+")[0]
            running.order("forget")
            looking.until(lambda job: (uses(job), memory(job).in_transit) == (set(), 1))
            running.order("take 1")
            looking.until(lambda job: (uses(job), memory(job).in_transit) == ({(running.pid, 1, 0)}, 0))
            running.order("drop")
            assert files_of(looking.round()) == []


def test_what_the_dead_leave_behind(own_shm: str) -> None:
    with Job(own_shm, "1g", TENSORS, "file_system", "fork") as running:
        child = running.hear()["child"]
        with looking_at(running.pid) as looking:
            running.order("send 2 40000000")
            running.order("forget")
            job = looking.until(lambda job: memory(job).in_transit == 2)
            assert memory(job).orphans == ()
            kill(child)
            # Who may still receive them is alive, and so is the manager, which would remove them.
            assert memory(looking.round()).orphans == ()
            managers = [pid for pid, role in job.roles.items() if role.kind == "shm manager"]
            assert managers
            for pid in managers:
                kill(pid)
            job = looking.until(lambda job: memory(job).orphans)
        orphans = memory(job).orphans
        assert [(row.size_bytes, row.creator) for row in orphans] == [(64 + 40_000_000, child)] * 2
        assert all(Path(f"/proc/{running.pid}/root{row.path}").exists() for row in orphans)
        remark = told(job, "shm-orphans")
        assert remark
        assert remark.summary == "2 files 76 MiB in /dev/shm belong to dead processes"


def test_a_container_with_a_dev_shm_and_pids_of_its_own(own_shm: str) -> None:
    with Job("two_rooms.py", own_shm, TENSORS, "file_system", "fork") as running:
        inner = running.hear()["child"]
        with looking_at(running.pid) as looking:
            running.order(f"send 1 {SIZE}")
            job = looking.round()
            own, (other,) = memory(job), memory(job).others
            (producer,) = [row for row in job.snapshot.processes if row.namespace_pid == inner]
            assert running.pid not in other.pids
            assert producer.pid in other.pids
            assert own.device == os.stat("/dev/shm").st_dev
            (file,) = files_of(job)
            # Its creator's name for itself, which is nobody's, or another one's, outside.
            assert (file.creator, file.creator_alive, file.count) == (inner, True, 2)
            assert share(job, producer.pid).created_bytes == 64 + SIZE


# Reference counts


def refcounter(job: JobState) -> SharedFile:
    (row,) = [row for row in files_of(job) if row.kind == "refcounter"]
    return row


def test_counts_of_a_refcounter() -> None:
    with Job("refcounter.py") as running:
        name = running.hear()["name"]
        with looking_at(running.pid) as looking:
            assert (refcounter(looking.round()).slots, refcounter(looking.round()).mappings) == ((), 1)
            for slot, count in ((0, 1), (1, 1), (9999, -1)):
                running.order(f"set {slot} {count}")
            row = refcounter(looking.round())
            assert (row.path, row.size_bytes, row.creator) == (f"/dev/shm/{name}", REFCOUNTER, running.pid)
            assert (row.slots, row.live_slots, row.released) == (((0, 1), (1, 1), (9999, -1)), 3, ())
            running.order("set 1 0")
            job = looking.round()
            row = refcounter(job)
            assert (row.slots, row.released) == (((0, 1), (9999, -1)), ((1, job.snapshot.taken_at),))
            # A file that only looks like one is no reason to say anything.
            assert told(job, "ipc-rebuilt-twice") is None
            (view,) = job.ipc.exports
            assert (view.state, view.exports, view.slot) == ("unknown", 2, None)
            assert view.reasons["state"].startswith("probably a refcounter; ")


def test_counts_of_a_refcounter_that_somebody_removed() -> None:
    with Job("refcounter.py") as running:
        running.hear()
        running.order("set 5 1")
        running.order("unlink")
        with looking_at(running.pid) as looking:
            row = refcounter(looking.round())
            assert (row.deleted, row.slots) == (True, ((5, 1),))
            running.order("set 6 1")
            stop(running.pid)
            assert refcounter(looking.round()).slots == ((5, 1), (6, 1))


def test_a_tensor_of_the_same_size_is_no_refcounter() -> None:
    with Job("tensors.py", "file_system", "fork") as running:
        running.hear()
        running.order("send 1 80000")
        with looking_at(running.pid) as looking:
            (file,) = files_of(looking.round())
        assert (file.size_bytes, file.kind) == (REFCOUNTER, "storage")
