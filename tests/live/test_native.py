"""A thread that hangs in C, in the report of a job that is really there."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Observation, Suspect, Verdict
from mpmon.model import Snapshot
from mpmon.probes.files import Proc
from mpmon.session.natives import NativeLooks
from tests.probes.native.looks import look, only_x86_64, python

pytestmark = [pytest.mark.live, only_x86_64]

SLEEPS = "import time; print('ready', flush=True); time.sleep(1e6)"


def observed(pid: int, tid: int | None, cause: str, *, dead: bool = False) -> Observation:
    """A finding that blames one thread."""
    suspect = Suspect(pid=pid, tid=tid, role="main", dead=dead)
    finding = Finding(cause=cause, certainty=Certainty.LIKELY, summary="It waits", suspects=(suspect, suspect))
    return Observation(
        snapshot=Snapshot(taken_at=1.0, root_pid=pid, root_start_time=1.0),
        diagnosis=Diagnosis(verdict=Verdict.HUNG, findings=(finding,)), watched_s=1.0,
    )  # fmt: skip


def added(observation: Observation, *, always: bool = False) -> Snapshot:
    return NativeLooks(Proc(), lambda: 5.0, always=always).add(observation).snapshot


def test_the_suspect_of_a_native_hang_is_read_once() -> None:
    with python(SLEEPS) as pid:
        look(pid)
        (row,) = added(observed(pid, pid, "native-hang")).native_stacks
    assert (row.pid, row.tid, row.end, row.taken_at) == (pid, pid, "start", 5.0)
    assert row.frames


def test_other_causes_are_read_when_the_user_wants_it() -> None:
    with python(SLEEPS) as pid:
        look(pid)
        assert added(observed(pid, pid, "worker-stuck")).native_stacks == ()
        assert len(added(observed(pid, pid, "worker-stuck"), always=True).native_stacks) == 1


def test_nobody_is_asked_who_is_dead_or_has_no_thread() -> None:
    for observation in (observed(1, 1, "native-hang", dead=True), observed(1, None, "native-hang")):
        assert NativeLooks(Proc(), lambda: 5.0, always=True).add(observation) is observation


def test_a_process_that_is_gone_is_a_problem_of_the_probe() -> None:
    gone = (1 << 22) + 1
    snapshot = added(observed(gone, gone, "native-hang"))
    assert snapshot.native_stacks == ()
    (report,) = snapshot.probes
    assert (report.name, report.ok) == ("native stacks", False)
    assert str(gone) in (report.problem or "")
