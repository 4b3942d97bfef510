"""A job of another user: nothing is guessed, and the reason is told."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.ipc.running import Job
from tests.patience import ran
from tests.shim.running import HOME

pytestmark = [pytest.mark.live, pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")]


def test_what_another_user_sees() -> None:
    with Job("queues.py", "fork") as running:
        running.hear()
        running.order("put bounded 5")
        command = [sys.executable, "-m", "tests.ipc.as_nobody", str(running.pid)]
        said = ran(command, cwd=HOME)
    assert said.returncode == 0, said.stderr
    seen = json.loads(said.stdout)
    assert (seen["queues"], seen["ipc_exports"], seen["shared_memory"], seen["text"]) == ([], [], None, [])
    assert seen["reasons"] == ["open files cannot be read (permission denied)"]
