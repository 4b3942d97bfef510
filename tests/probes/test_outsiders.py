"""Who outside of the job has a pipe or a semaphore of it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

from mpmon.probes import outsiders as outsiders_probe
from mpmon.probes.files import Proc
from mpmon.probes.maps import areas
from mpmon.probes.outsiders import AGAIN_S, Outsiders


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may have thousands of processes."""
    monkeypatch.setattr(outsiders_probe, "DEADLINE_S", 30.0)
    monkeypatch.setattr(outsiders_probe, "SHARE_AGAIN", 1e9)


def test_the_end_of_a_pipe_that_another_process_has() -> None:
    reads, writes = os.pipe()
    command = ["sh", "-c", "echo ready; read answer"]
    with subprocess.Popen(command, pass_fds=[reads], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        name = f"pipe:{os.fstat(reads).st_ino}"
        found = Outsiders(Proc()).holders(frozenset({name}), (), 0.0)
        assert [(row.pid, row.fd, row.reads, row.writes) for row in found] == [(other.pid, reads, True, False)]
        assert Outsiders(Proc()).holders(frozenset({name}), (other.pid,), 0.0) == ()
        other.kill()
    os.close(reads)
    os.close(writes)


def test_a_semaphore_that_another_process_maps() -> None:
    context = multiprocessing.get_context("spawn")
    lock, started = context.Lock(), context.Event()
    other = context.Process(target=_keep, args=(lock, started), daemon=True)
    other.start()
    started.wait()
    names = frozenset(area.semaphore for area in areas(Proc(), os.getpid()) if area.semaphore)
    found = Outsiders(Proc()).holders(names, (), 0.0)
    other.kill()
    other.join()
    assert {row.pid for row in found} == {other.pid}


def test_the_same_objects_are_asked_for_once_in_a_while() -> None:
    outsiders, (reads, writes) = Outsiders(Proc()), os.pipe()
    names = frozenset({f"pipe:{os.fstat(reads).st_ino}"})
    assert outsiders.holders(names, (), 0.0) == ()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=reads) as other:
        assert outsiders.holders(names, (), AGAIN_S / 2) == ()
        assert {row.pid for row in outsiders.holders(names, (), AGAIN_S)} == {other.pid}
        other.kill()
    os.close(reads)
    os.close(writes)


def _keep(_lock: object, started: object) -> None:
    import time

    started.set()  # type: ignore[attr-defined]
    time.sleep(60)
