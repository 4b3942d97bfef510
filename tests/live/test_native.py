"""The C and C++ frames of a job that is really there."""

from __future__ import annotations

import os

import pytest

from mpmon.model import Snapshot
from mpmon.probes.files import Proc
from mpmon.session.natives import NativeLooks
from mpmon.session.sampler import Sampler
from tests.probes.native.looks import look, only_x86_64, python

pytestmark = [pytest.mark.live, only_x86_64]

SLEEPS = "import time; print('ready', flush=True); time.sleep(1e6)"


def sampled(pid: int, stacks: str) -> Snapshot:
    """One round that finds a hang to rest on the main thread."""
    sampler = Sampler(Proc(), pid, now=lambda: 5.0, host=os.uname().nodename, stacks=stacks, eager=True)  # type: ignore[arg-type]
    try:
        return sampler.round(lambda _: {pid: {pid}})
    finally:
        sampler.close()


def test_what_a_hang_rests_on_is_read_and_of_all_threads_when_that_is_wanted() -> None:
    program = f"import threading; threading.Thread(target=threading.Event().wait, daemon=True).start(); {SLEEPS}"
    with python(program) as pid:
        look(pid, threads=2)
        (row,) = sampled(pid, "auto").native_stacks
        assert (row.pid, row.tid, row.end, row.taken_at) == (pid, pid, "start", 5.0)
        assert row.frames
        assert len(sampled(pid, "native").native_stacks) == 2
        assert sampled(pid, "py-spy").native_stacks == ()
        assert sampled(pid, "never").native_stacks == ()


def test_a_process_that_ends_before_it_is_read_is_a_problem_of_the_probe() -> None:
    with python(SLEEPS) as pid:
        snapshot = sampled(pid, "never")
    found = NativeLooks(Proc()).add(snapshot, {pid: {pid}})
    assert [row.end for row in found.native_stacks] == ["refused"]
    assert [(row.name, row.ok) for row in found.probes[-1:]] == [("native stacks", False)]
