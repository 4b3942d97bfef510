"""The main loop's side of the helper process: start it, send requests, receive answers, end it. Nothing here waits longer
than its given limit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess

import msgspec

from mpmon import start
from mpmon.probes.nvml.wire import Ask, Look, Settings

CHUNK = 1 << 16
END_S = 0.1
"""Time for an orderly exit, and for the kill after it."""

CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})
"""Signals that a program causes itself."""

_decoder = msgspec.json.Decoder(Look)


class Child:
    """One helper, from start to end."""

    def __init__(self, settings: Settings) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        said = msgspec.json.encode(settings).decode()
        # A separate session: Ctrl-C must reach mpmon only, which ends the helper in an orderly way.
        self._process = subprocess.Popen(
            start.command("mpmon.probes.nvml.helper", said, str(os.getpid()), bare=True), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
        self._streams = [stream for stream in (self._process.stdin, self._process.stdout) if stream]
        self._asks, self._answers = (stream.fileno() for stream in self._streams)
        os.set_blocking(self._answers, False)
        self._heard = b""
        self.owes = False
        """A request has not been answered in full."""
        self.ended = False

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def ask(self, ask: Ask) -> None:
        """Ask, without waiting for the answer."""
        self.owes = True
        with contextlib.suppress(OSError):  # `hear` notices that it has ended
            os.write(self._asks, msgspec.json.encode(ask) + b"\n")

    def hear(self, seconds: float) -> Look | None:
        """The newest answer, after `seconds` at most; `None` when there is no new one."""
        newest: Look | None = None
        ready = select.poll()
        ready.register(self._answers, select.POLLIN)
        while self.owes and not self.ended and ready.poll(0 if newest else seconds * 1000):
            newest = self._read() or newest
        return newest

    def how_it_ended(self) -> str:
        """How a helper that has ended did so, in words."""
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "mpmon's helper for the NVIDIA driver stopped answering"
        if status >= 0:
            return f"mpmon's helper for the NVIDIA driver ended with status {status}"
        name = signal.Signals(-status).name if -status in signal.valid_signals() else f"signal {-status}"
        if -status in CRASHES:
            return f"the NVIDIA driver library crashed ({name})"
        return f"mpmon's helper for the NVIDIA driver was killed ({name})"

    def close(self) -> None:
        """End it: let it exit by itself, else kill it. A thread stuck in the kernel may outlive even that."""
        for stream in self._streams:
            stream.close()
        for end in (lambda: None, self._process.kill):
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
                return

    def _read(self) -> Look | None:
        """The newest answer that can be read now."""
        try:
            chunk = os.read(self._answers, CHUNK)
        except BlockingIOError:
            return None
        if not chunk:
            self.ended = True
            return None
        *lines, self._heard = (self._heard + chunk).split(b"\n")
        if not lines:
            return None
        try:
            look = _decoder.decode(lines[-1])
        except msgspec.MsgspecError as problem:
            look = Look(problem=f"the answer about GPUs cannot be read: {problem}", final=True)
        self.owes = not look.done
        return look


def look_once(seconds: float, settings: Settings | None = None) -> Look:
    """What the driver reports now, or why there is no answer within `seconds`."""
    child = Child(settings or Settings())
    try:
        child.ask(Ask())
        look = child.hear(seconds)
        if look is not None:
            return look
        return Look(
            problem=child.how_it_ended() if child.ended else f"the NVIDIA driver did not answer within {seconds:g} s"
        )
    finally:
        child.close()
