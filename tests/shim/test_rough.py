"""Rough treatment of a job with the shim: its result is that of a job without, mpmon says what happened, and gc leaves nothing.

A tmpfs that is or gets full, and folders that cannot be used, are in `test_no_harm.py`; forks, other programs (execve) and two
jobs in one folder in `test_records.py`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mpmon.model import QueueRecord, Snapshot
from mpmon.probes.shim import clean
from tests.ipc.running import PROGRAMS as IPC_PROGRAMS
from tests.ipc.running import Job as AnyJob
from tests.ipc.running import kill
from tests.shim.running import HOME, PROGRAMS, STARTUP, Job, Look, environment, look, run
from tests.talking import run_by_mpmon

ROOT = os.geteuid() == 0


def until(looking: Look, fits: Callable[[Snapshot], object]) -> Snapshot:
    snapshot = looking.round()
    while not fits(snapshot):
        snapshot = looking.round()
    return snapshot


def alive(snapshot: Snapshot) -> dict[int, bool]:
    return {row.pid: row.alive for row in snapshot.shims}


def record(snapshot: Snapshot, pid: int) -> QueueRecord:
    (row,) = [row for row in snapshot.queue_records if (row.pid, row.kind) == (pid, "Queue")]
    return row


@pytest.mark.parametrize("seed", range(4))
def test_a_consumer_and_then_its_producer_are_killed_at_any_moment(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with Job("restless.py", folder=tmp_path) as job, look(job.pid) as looking:
        child = job.hear_pid()
        for _ in range(chance.randrange(1, 30)):
            looking.round()
        kill(child)
        snapshot = until(looking, lambda snapshot: not alive(snapshot).get(child, True))
        assert alive(snapshot) == {job.pid: True, child: False}
        # As without the shim, its producer fills the queue and waits.
        snapshot = until(looking, lambda snapshot: record(snapshot, job.pid).putting)
        before = record(snapshot, child).gets
        assert before <= record(snapshot, job.pid).puts <= before + 101
        assert not snapshot.unknowns
        assert clean([str(tmp_path)], keep_newest=False) == (), "the job lives"
        kill(job.pid)
        job.end()
    assert {file.pid for file in clean([str(tmp_path)], keep_newest=False)} == {job.pid, child}
    assert not list(tmp_path.iterdir())


def test_two_jobs_of_mpmon_run_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    """The one that ends first cleans up, and keeps off the files of the other."""
    command = run_by_mpmon(str(PROGRAMS / "items.py"), "fork")
    variables = environment(None, PYTHONPATH=str(HOME), MPMON_RUN_DIR=str(tmp_path))
    with Job("blocked.py", folder=tmp_path) as other:
        child = other.hear_pid()
        other.hear()
        jobs = [
            subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        assert [(job.communicate()[0], job.returncode) for job in jobs] == [("380 0\n", 0)] * 2
        with look(other.pid) as looking:
            assert alive(looking.round()) == {other.pid: True, child: True}
    clean([str(tmp_path)], keep_newest=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not ROOT, reason="only root may have a namespace of its own")
@pytest.mark.parametrize("pids", [(), ("pids",)], ids=["mounts", "mounts and pids"])
def test_a_job_in_a_container_is_seen_from_outside(pids: tuple[str, ...], own_shm: str, tmp_path: Path) -> None:
    """Its folder lies in a /dev/shm of its own, and has no such file outside."""
    folder = f"/dev/shm/{tmp_path.name}"
    shim = {"MPMON_RUN_DIR": folder, "PYTHONPATH": str(STARTUP)}
    program = [own_shm, "8m", *pids, str(PROGRAMS / "blocked.py")]
    with AnyJob(*program, **shim) as job, look(job.pid) as looking:
        inner = job.hear_pid()
        job.hear()
        snapshot = until(looking, lambda snapshot: any(row.putting for row in snapshot.queue_records))
        (child,) = [row.pid for row in snapshot.processes if (row.namespace_pid or row.pid) == inner]
        assert (child == inner) is not bool(pids)
        row = record(snapshot, child)
        assert (row.puts, row.putting) == (2, True)
        assert alive(snapshot)[child]
        assert not Path(folder).exists()
        os.kill(child, signal.SIGKILL)
        until(looking, lambda snapshot: not alive(snapshot).get(child, True))


@pytest.mark.skipif(not ROOT, reason="who is not root is bound by permissions anyway: test_no_harm")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    items = str(PROGRAMS / "items.py")
    without = run("bound.py", items, "fork", folder=None)
    with_it = run("bound.py", items, "fork", folder=tmp_path)
    assert (with_it.status, with_it.said) == (without.status, without.said) == (0, "380 0\n")
    (said,) = with_it.complained.splitlines()
    assert said.startswith("mpmon: shim off in pid ")
    assert "Permission denied" in said
    tmp_path.chmod(0o700)
    assert not list(tmp_path.iterdir())


def test_standin_a_consumer_of_cuda_memory_is_killed_while_blocks_come_and_go(tmp_path: Path) -> None:
    """Its producer goes on; what the dead had is known, and gone from the folder when both are."""
    pytest.importorskip("torch")
    shim = {"MPMON_RUN_DIR": str(tmp_path), "PYTHONPATH": str(STARTUP)}
    with AnyJob(str(IPC_PROGRAMS / "blocks.py"), "fork", **shim) as job, look(job.pid) as looking:
        child = job.hear()["child"]
        job.order("send 3 4096")
        job.tell("churn 1000")
        until(looking, lambda snapshot: any(row.pid == child and row.received > 20 for row in snapshot.shims))
        kill(child)
        snapshot = until(looking, lambda snapshot: not alive(snapshot).get(child, True))
        assert {row.pid for row in snapshot.exports} == {job.pid}
        assert {0, 1, 2} <= {row.slot for row in snapshot.imports if row.pid == child}
        assert not snapshot.unknowns
        kill(job.pid)
        job.end()
    clean([str(tmp_path)], keep_newest=False)
    assert not list(tmp_path.iterdir())
