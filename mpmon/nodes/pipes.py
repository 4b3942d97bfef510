"""The pipes of the carriers: read as far as something has come, written as far as there is room, never waited for."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from typing import IO

from mpmon.nodes.members import Running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Ready = Iterable[tuple[selectors.SelectorKey, int]]

CHUNK = 1 << 16

INPUT, OUTPUT, COMPLAINTS = "input", "output", "complaints"
"""The three pipes of a carrier."""

END_S = 3.0
"""Time limit for carriers to end by themselves."""

KILL_S = 1.0
"""The same once they were terminated."""


class Pipes:
    """The pipes of all carriers of a fleet, and one that wakes whoever waits for them."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def wait(self, seconds: float) -> Ready:
        """Wait for something to read, for room, or for `wake`, this long at most."""
        return self._selector.select(seconds)

    def wake(self) -> None:
        """End `wait`; safe from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wakes, b"\0")

    def take(self, events: Ready) -> Iterator[tuple[Running, str, bytes]]:
        """What carriers put out, with `OUTPUT` or `COMPLAINTS`; an empty chunk is the end. Sends what is left to send."""
        for key, _ in events:
            if key.fd not in self._selector.get_map():  # closed after a previous event
                continue
            if key.data is None:
                _read(key.fd)
                continue
            running, kind = key.data
            if kind == INPUT:
                self._send(running)
                continue
            chunk = _read(key.fd)
            if chunk is None:
                continue
            if kind == COMPLAINTS:
                running.says(chunk)
            if not chunk:
                self._selector.unregister(key.fileobj)
            yield running, kind, chunk

    def start(self, running: Running) -> None:
        """Start a carrier.

        Raises:
            OSError: its program cannot be started.
        """
        running.process = subprocess.Popen(
            running.carrier.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env=running.carrier.environment, start_new_session=True, cwd="/",
        )  # fmt: skip
        for stream, kind in _streams(running.process):
            os.set_blocking(stream.fileno(), False)
            if kind != INPUT:
                self._selector.register(stream, selectors.EVENT_READ, (running, kind))

    def send(self, running: Running, frames: bytes) -> None:
        """Send it this, the rest later; what a carrier does not read is dropped, because it is useless later."""
        if len(running.unsent) <= CHUNK:
            running.unsent += frames
        self._send(running)

    def _send(self, running: Running) -> None:
        stream = running.process.stdin if running.process else None
        if stream is None or stream.closed:
            return
        try:
            while running.unsent:
                del running.unsent[: os.write(stream.fileno(), running.unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it has ended, as the end of its output will show
            running.unsent.clear()
        registered = stream in self._selector.get_map()
        if running.unsent and not registered:
            self._selector.register(stream, selectors.EVENT_WRITE, (running, INPUT))
        elif registered and not running.unsent:
            self._selector.unregister(stream)

    def close(self, process: subprocess.Popen[bytes]) -> int | None:
        """Read the last complaints and the exit status; `None` if it had to be killed."""
        for stream, kind in _streams(process):
            with contextlib.suppress(KeyError, ValueError):
                key = self._selector.unregister(stream)
                while kind == COMPLAINTS and (chunk := _read(key.fd)):
                    running, _ = key.data
                    running.says(chunk)
            stream.close()
        try:
            return process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None

    def end(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """End these, which were asked to end, and close everything."""
        _wait_for(processes, END_S)
        for process in processes:
            if process.poll() is None:
                process.terminate()
        _wait_for(processes, KILL_S)
        for process in processes:
            if process.poll() is None:
                process.kill()
            for stream, _ in _streams(process):
                stream.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._wakes)


def _wait_for(processes: list[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait for these to end, reading and discarding output: a process that writes to a full pipe does not end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        for process in processes:
            for stream, kind in _streams(process):
                if kind != INPUT:
                    _read(stream.fileno())
        time.sleep(0.01)


def _streams(process: subprocess.Popen[bytes]) -> list[tuple[IO[bytes], str]]:
    """Its pipes, with what each is."""
    named = ((process.stdin, INPUT), (process.stdout, OUTPUT), (process.stderr, COMPLAINTS))
    return [(stream, kind) for stream, kind in named if stream]


def _read(descriptor: int) -> bytes | None:
    """The available bytes; empty at the end, `None` if nothing has arrived yet."""
    try:
        return os.read(descriptor, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
