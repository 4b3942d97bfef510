"""Start a job, talk to it, end it with all it started, and leave nothing in /dev/shm."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import final

import psutil

from tests.shim.running import environment
from tests.talking import Talking

__all__ = ["PROGRAMS", "Job", "kill", "stop"]

PROGRAMS = Path(__file__).parent / "programs"


@final
class Job(Talking):
    """One of `programs/`."""

    def __init__(self, program: str, *arguments: str, python: str = sys.executable, **more: str) -> None:
        """With `more` in its environment."""
        super().__init__([python, str(PROGRAMS / program), *arguments], environment(None, **more))


def kill(pid: int) -> None:
    """As the kernel kills for memory; it is gone, or a zombie, when this returns."""
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            pass


def stop(*pids: int) -> None:
    """They stand still when this returns."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
            pass
