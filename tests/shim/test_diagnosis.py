"""A job with the shim gets the same verdict as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpmon.diagnosis.stacks.frames import is_machinery, is_user
from mpmon.shim import queues
from tests.live.running import watch
from tests.shim.running import Job, place


def test_hooks_are_nobodys_code() -> None:
    assert is_machinery(queues.__file__)
    assert not is_user(queues.__file__)


@pytest.mark.live
@pytest.mark.parametrize("shim", [False, True])
def test_the_line_of_a_hang_is_the_users(shim: bool, tmp_path: Path) -> None:
    with Job("hangs.py", folder=tmp_path if shim else None) as job:
        child = job.hear_pid()
        finding = watch(job.pid).diagnosis.findings[0]
        (suspect,) = finding.suspects
        assert (finding.cause, suspect.pid) == ("worker-stuck", child)
        assert str(suspect.frame) == place("hangs.py", "STUCK", "sleep")
        assert [(row.pid, row.waits_for) for row in finding.waiters] == [(job.pid, "an item from a queue")]
    assert any(tmp_path.iterdir()) is shim
