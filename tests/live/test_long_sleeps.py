"""A process that its own code has put to sleep for long: what its loop does besides."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mpmon.probes.files import Proc
from mpmon.session.sampler import Sampler
from tests.patience import patience

pytestmark = pytest.mark.live

TURNS = {
    "time.sleep(1800)": True,
    "print('alive'); time.sleep(1800)": True,
    "time.sleep(1800); queue.put(1)": False,
}


@pytest.mark.parametrize(("turn", "only_sleeps"), TURNS.items())
def test_a_long_sleep_in_a_loop(tmp_path: Path, turn: str, *, only_sleeps: bool) -> None:
    program = tmp_path / "clock.py"
    lines = "\n    ".join(turn.split("; "))
    program.write_text(
        f"import queue, time\nqueue = queue.Queue()\nprint('ready', flush=True)\nwhile True:\n    {lines}\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            assert _seen_asleep(child.pid) == only_sleeps
        finally:
            child.kill()


def _seen_asleep(pid: int) -> bool:
    """Whether the loop of the main thread only sleeps, once it is found asleep."""
    sampler = Sampler(Proc(), pid, now=time.time, host="host", eager=True)
    for _ in patience(20.0):
        seen = sampler.round()
        asleep = any(row.syscall == "clock_nanosleep" for row in seen.blocked)
        if asleep and seen.stacks:
            return seen.stacks[0].only_sleeps
    pytest.fail("it was not found asleep")
