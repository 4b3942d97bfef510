"""The program on a real terminal: keys arrive however long nobody pressed one, and it ends at once."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.patience import Counted, patience, status_of

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os
import resource

from mpmon.tui import driver
from mpmon.tui.run import run
from tests.tui.fakes import FakeWatch, hung

driver.TICKS = 2
many = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (many, many))
opened = [os.dup(0) for _ in range(min(many - 100, 1100))]  # as on a large job: the driver gets high descriptors
raise SystemExit(run(FakeWatch(hung())))
"""


def read_until(terminal: int, words: bytes) -> None:
    """Reads what the program writes until the words stand in it."""
    written = b""
    for pause in patience():
        if select.select([terminal], [], [], pause)[0]:
            written += os.read(terminal, 1 << 16)
        if words in written:
            return
    raise AssertionError(written[-2000:])


def test_keys_arrive_after_a_silence_and_quitting_is_quick() -> None:
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end
    )
    os.close(end)
    try:
        read_until(terminal, b"Enter")
        time.sleep(1.0)
        os.write(terminal, b"h")
        read_until(terminal, b"everywhere")
        time.sleep(0.5)
        os.write(terminal, b"\x1b")
        read_until(terminal, b"_worker_loop")
        time.sleep(0.5)
        watch = Counted()
        os.write(terminal, b"q")
        assert status_of(program) == 0
        assert watch.read() < 5.0
    finally:
        program.kill()
        program.wait()
        os.close(terminal)
