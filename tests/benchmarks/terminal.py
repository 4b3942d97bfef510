"""Runs a program on a pseudo terminal, reads its screen as a user would, and measures what it costs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tests.benchmarks.job import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import TracebackType

    from typing_extensions import Self

ROWS, COLUMNS = 60, 200
END_S = 3.0
CPUCLOCK_SCHED = 2

COLOURS = re.compile(rb"\x1b\[[0-9;:]*m")
CONTROLS = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\"  # strings for the terminal: titles, questions
    rb"|\x1b[()][A-Z0-9]|\x1b[=>78DEHMc]"  # character sets, modes
)
WHERE_IS_THE_CURSOR, CURSOR = b"\x1b[6n", b"\x1b[1;1R"
"""A question to the terminal, and the answer."""
NUMBER = re.compile(rb"(?<![\w.])\d{1,9}(?![\w.%])")


@dataclass(frozen=True)
class Cost:
    """What a program used in some time."""

    seconds: float
    cpu_s: float
    """The program and its children, those that ended in between included."""
    output_bytes: int
    rss_bytes: int


class Screen:
    """A program on a terminal of its own, as a context; killed at exit, and its children with it."""

    def __init__(
        self, command: list[str], environment: Mapping[str, str], size: tuple[int, int] = (ROWS, COLUMNS)
    ) -> None:
        """Start the program; `environment` replaces this process's, `size` is rows and columns."""
        self.output = b""
        """Everything the program wrote so far."""
        self.cpu_s = 0.0
        """After exit: CPU of the whole run, children that were waited for included (wait4)."""
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._arrived: float | None = None
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def __enter__(self) -> Self:
        """Nothing more to do: it runs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the program to end, then insist; end what it leaves behind."""
        left = _children(self.pid)
        self._process.terminate()
        deadline = time.monotonic() + END_S
        while not self._reaped(os.WNOHANG):
            if time.monotonic() > deadline:
                self._process.kill()
            self._read(0.02)
        os.close(self._master)
        for child in left:
            if child.is_running():
                child.kill()

    @property
    def pid(self) -> int:
        """The program."""
        return self._process.pid

    def until_shown(self, pids: Collection[int], timeout: float) -> float | None:
        """Seconds from the start of the program until one of these pids stands on the screen."""
        deadline = self._started + timeout
        while time.monotonic() < deadline and not self.ended:
            # What arrived before counts from when it arrived: the pid may stand there already.
            if self._arrived is not None and numbers(self.output) & set(pids):
                return self._arrived - self._started
            self._read(deadline - time.monotonic())
        return None

    def cost(self, seconds: float) -> Cost:
        """Let it run so long, its output read all the time, and tell what it used."""
        begin, cpu, written = time.monotonic(), tree_cpu_s(self.pid), len(self.output)
        self.run(seconds)
        spent = time.monotonic() - begin
        return Cost(spent, tree_cpu_s(self.pid) - cpu, len(self.output) - written, _tree_rss(self.pid))

    def run(self, seconds: float) -> None:
        """Let it run so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self.ended:
            self._read(left)

    def press(self, key: bytes) -> float:
        """Send a key, and tell how many seconds passed until the program wrote something."""
        sent = time.monotonic()
        os.write(self._master, key)
        while not self.ended and time.monotonic() < sent + END_S:
            if (arrived := self._read(END_S)) is not None:
                return arrived - sent
        return END_S

    def quit(self, key: bytes) -> tuple[float, int]:
        """Send the key that ends the program: seconds until it is gone, and how many of its children are left then."""
        children = _children(self.pid)
        sent = time.monotonic()
        os.write(self._master, key)
        while not self._reaped(os.WNOHANG) and time.monotonic() < sent + END_S:
            self._read(0.005)
        return time.monotonic() - sent, sum(child.is_running() for child in children)

    @property
    def ended(self) -> bool:
        """The program is gone already, which no program on a terminal should be."""
        return self._process.returncode is not None or self._reaped(os.WNOHANG)

    def _read(self, timeout: float) -> float | None:
        """Take what the program writes, and tell when it came."""
        if not select.select([self._master], [], [], max(0.0, min(timeout, 0.2)))[0]:
            return None
        try:
            said = os.read(self._master, 1 << 16)
        except OSError:  # the other end is closed: the program ends
            time.sleep(0.005)
            return None
        self.output += said
        for _ in range(said.count(WHERE_IS_THE_CURSOR)):  # gpustat shows nothing before it is told
            os.write(self._master, CURSOR)
        self._arrived = time.monotonic()
        return self._arrived

    def _reaped(self, options: int) -> bool:
        if self._process.returncode is not None:
            return True
        pid, status, usage = os.wait4(self.pid, options)
        if not pid:
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s = usage.ru_utime + usage.ru_stime
        return True


def numbers(output: bytes) -> set[int]:
    """All numbers that stand alone on the screen; colours may not cut one, moves of the cursor do."""
    plain = CONTROLS.sub(b" ", COLOURS.sub(b"", output))
    return {int(digits) for digits in NUMBER.findall(plain)}


def last_words(output: bytes) -> str:
    """Tell what the program said last, for a program that ended when it should not."""
    lines = CONTROLS.sub(b" ", COLOURS.sub(b"", output)).decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][:100] if said else "no output"


def cpu_s(pid: int) -> float:
    """CPU so far of one process alone, by its nanosecond clock."""
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def tree_cpu_s(pid: int) -> float:
    """CPU so far of a process and its descendants, those they waited for included.

    The living by their nanosecond clocks, the dead by their parents' cutime and cstime, which count in ticks of 10 ms.
    """
    total = 0.0
    for process in [pid, *(child.pid for child in _children(pid))]:
        with contextlib.suppress(psutil.Error, OSError):
            times = psutil.Process(process).cpu_times()
            total += cpu_s(process)
            total += times.children_user + times.children_system
    return total


def _tree_rss(pid: int) -> int:
    total = 0
    for process in [pid, *(child.pid for child in _children(pid))]:
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(process).memory_info().rss
    return total


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a program started in a session of its own, with everything in it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
