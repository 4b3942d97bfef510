"""The program on a real terminal: keys arrive however long nobody pressed one, and it ends when told to, not at the next key."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mpmon.probes.syscalls import SYSCALLS
from tests.patience import becomes, patience, status_of

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os
import resource

from mpmon.errors import LeavesAtOnce
from mpmon.tui import driver
from mpmon.tui.run import run
from tests.tui.fakes import FakeWatch, hung

driver.TICKS = 2
many = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (many, many))
opened = [os.dup(0) for _ in range(min(many - 100, 1100))]  # as on a large job: the driver gets high descriptors
try:
    raise SystemExit(run(FakeWatch(hung())))
except LeavesAtOnce as leaving:
    os._exit(leaving.status)
"""


def read(terminal: int) -> bytes:
    """What the program has written."""
    return os.read(terminal, 1 << 16) if select.select([terminal], [], [], 0)[0] else b""


def read_until(terminal: int, words: bytes) -> None:
    """Reads what the program writes until the words stand in it."""
    written = b""
    for pause in patience():
        if select.select([terminal], [], [], pause)[0]:
            written += os.read(terminal, 1 << 16)
        if words in written:
            return
    raise AssertionError(written[-2000:])


def rests(pid: int) -> bool:
    """Its thread for keys waits for one without a limit of time: the third argument of poll(2), or of ppoll(2), is that."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        number, *arguments = (task / "syscall").read_text().split()
        name = SYSCALLS.get(int(number)) if number.isdigit() else None
        if name in ("poll", "ppoll") and int(arguments[2], 16) in (0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
            return True
    return False


def is_stuck(pid: int) -> bool:
    """One of its threads sleeps in write(2): the terminal is full."""
    calls = (((task / "syscall").read_text().split() or [""])[0] for task in Path(f"/proc/{pid}/task").iterdir())
    return any(SYSCALLS.get(int(number)) == "write" for number in calls if number.isdigit())


@contextmanager
def on_a_terminal() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program, once it has drawn its first picture, and the other end of its terminal."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end
    )
    os.close(end)
    try:
        read_until(terminal, b"Enter")
        yield program, terminal
    finally:
        program.kill()
        program.wait()
        os.close(terminal)


def test_keys_arrive_after_a_silence_and_quitting_needs_no_other_key() -> None:
    with on_a_terminal() as (program, terminal):
        assert becomes(lambda: rests(program.pid))
        os.write(terminal, b"h")
        read_until(terminal, b"everywhere")
        assert becomes(lambda: rests(program.pid))
        os.write(terminal, b"\x1b")
        read_until(terminal, b"_worker_loop")
        assert becomes(lambda: rests(program.pid))
        os.write(terminal, b"q")
        assert status_of(program) == 0


def fill(program: subprocess.Popen[bytes], terminal: int) -> None:
    """Presses keys, and reads nothing of what is drawn then."""
    os.set_blocking(terminal, False)

    def press() -> bool:
        with suppress(BlockingIOError):
            os.write(terminal, b"h\x1b")
        return is_stuck(program.pid)

    assert becomes(press)


def test_a_terminal_that_takes_nothing_keeps_nobody_from_leaving() -> None:
    with on_a_terminal() as (program, terminal):
        fill(program, terminal)
        program.send_signal(signal.SIGTERM)
        assert status_of(program) == 128 + signal.SIGTERM


def test_once_a_terminal_takes_something_again_all_is_drawn_anew() -> None:
    with on_a_terminal() as (program, terminal):
        fill(program, terminal)
        # Until the last picture, which those of the keys pressed before do not hide.
        assert becomes(lambda: rests(program.pid) or bool(read(terminal)))
        os.write(terminal, b"h")
        read_until(terminal, b"everywhere")
