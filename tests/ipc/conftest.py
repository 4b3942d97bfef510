from __future__ import annotations

import subprocess
import sys

import pytest

from tests.ipc.running import PROGRAMS


@pytest.fixture(scope="session")
def own_shm() -> str:
    """The program that gives another one a /dev/shm of its own; such tests are skipped where that is not permitted."""
    program = str(PROGRAMS / "own_shm.py")
    tried = subprocess.run(
        [sys.executable, program, "1m", "pids", "-c", ""], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no namespaces here: {tried.stderr.strip().splitlines()[-1]}")
    return program
