"""The C and C++ frames of a job that is really there."""

from __future__ import annotations

import os

import pytest

from mpmon.model import Snapshot
from mpmon.probes import native
from mpmon.probes.files import Proc
from mpmon.probes.native.samples import NotSampled, check_sampling
from mpmon.session.natives import NativeLooks
from mpmon.session.renewals import Foreseen
from mpmon.session.sampler import Sampler
from tests.probes.native.looks import look, only_x86_64, python

pytestmark = [pytest.mark.live, only_x86_64]

SLEEPS = "import time; print('ready', flush=True); time.sleep(1e6)"


def sampled(pid: int, stacks: str) -> Snapshot:
    """One round that finds a hang to rest on the main thread."""
    sampler = Sampler(Proc(), pid, now=lambda: 5.0, host=os.uname().nodename, stacks=stacks, eager=True)  # type: ignore[arg-type]
    try:
        return sampler.round(lambda _: Foreseen({pid: {pid}}, is_hang=True))
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


SPINS = "print('ready', flush=True)\nwhile True: pass"


@pytest.mark.parametrize("stacks", ["auto", "native"])
def test_what_runs_in_a_hang_is_sampled(stacks: str) -> None:
    try:
        check_sampling()
    except NotSampled as problem:
        pytest.skip(f"running threads cannot be sampled here: {problem.why}")
    with python(SPINS) as pid:
        row = next(row for _ in range(600) for row in sampled(pid, stacks).native_stacks if row.is_sample)
    assert (row.pid, row.tid, row.end) == (pid, pid, "start")


@pytest.mark.parametrize("stacks", ["py-spy", "never"])
def test_settings_that_leave_frames_of_c_out_leave_samples_out(stacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("it was sampled")

    monkeypatch.setattr(native, "native_samples", asked)
    with python(SPINS) as pid:
        assert sampled(pid, stacks).native_stacks == ()
