"""Jobs in a pid namespace of their own, seen from outside: what they call by their numbers is found by ours."""

from __future__ import annotations

import os
import shutil

import pytest

from mpmon.diagnosis.findings import Observation, Verdict
from tests.live.interpreters import VERSIONS, interpreters
from tests.live.running import Program, watch

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace everywhere"),
    pytest.mark.skipif(not shutil.which("unshare"), reason="there is no unshare(1) here"),
]

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc")


def from_here(observation: Observation) -> dict[int, int]:
    """Pids as mpmon sees them, by those of the job."""
    return {
        process.namespace_pid: process.pid
        for process in observation.snapshot.processes
        if process.namespace_pid is not None
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_two_children_that_wait_for_each_other(version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with Program("lock_order.py", "fork", python=python, inside=UNSHARE).hear("left", "right") as program:
        seen = watch(program.pid)
        here = from_here(seen)
        parent, left, right = (here[number] for number in (1, program.pids["left"], program.pids["right"]))

        assert seen.diagnosis.verdict is Verdict.HUNG, seen.diagnosis.because
        (finding,) = seen.diagnosis.findings
        assert finding.cause == "lock-cycle"
        named = {row.pid: (row.frame.file, row.frame.line) for row in finding.suspects if row.frame}
        file = str(program.file)
        assert named == {left: (file, program.line("# STUCK left")), right: (file, program.line("# STUCK right"))}

        waited = {row.waits_on for row in seen.snapshot.blocked if row.pid == parent and row.syscall == "wait4"}
        assert waited == {(f"process:{left}",)}
        assert {(row.pid, row.child) for row in seen.snapshot.remembered} == {(parent, left), (parent, right)}
