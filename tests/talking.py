"""A job that tells what it does, one JSON object a line, and goes on when told to: started, talked to, ended."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import psutil

from tests.patience import left_of, patience, status_of


def run_by_mpmon(*command: str) -> list[str]:
    """The words with which mpmon starts a program of Python without a screen."""
    return [sys.executable, "-m", "mpmon", "run", "--headless", "--", sys.executable, *command]


class Talking:
    """One job; at the end it is gone with all it started, and with what it has in /dev/shm."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._temporary = tempfile.TemporaryDirectory(dir="/tmp")
        self._process = subprocess.Popen(
            command, env={**environment, "TMPDIR": self._temporary.name}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        self._lines: Queue[str] = Queue()
        self._everybody: dict[tuple[int, float], psutil.Process] = {}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Talking:
        return self

    def __exit__(self, *_: object) -> None:
        self._remember()
        last = [process for process in self._everybody.values() if _is_tracker(process)]
        for process in self._everybody.values():
            if process not in last:
                _kill(process)
        # They end after those they serve, and take the named semaphores with them.
        for process in left_of(last, 10.0):
            _kill(process)
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        left_of(list(self._everybody.values()), 5.0)
        # It closes what it listens to, unless somebody whom nobody knows of still has the other end.
        self._listener.join(5)
        # What a killed process and a killed manager of torch leave.
        for pid, _ in self._everybody:
            for left in Path("/dev/shm").glob(f"torch_{pid}_*"):
                left.unlink(missing_ok=True)
        self._temporary.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> dict[str, Any]:
        """The next thing it says."""
        line = self._line()
        assert line, "the job has ended"
        self._remember()
        return json.loads(line)

    def _line(self) -> str:
        for pause in patience():
            with contextlib.suppress(Empty):
                return self._lines.get(timeout=pause)
        raise AssertionError("the job says nothing")

    def hear_pid(self, name: str = "child") -> int:
        """A process it names."""
        pid = self.hear()[name]
        assert isinstance(pid, int)
        return pid

    def tell(self, word: str = "go") -> None:
        """What it waits for."""
        assert self._process.stdin
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def order(self, word: str) -> dict[str, Any]:
        """Have it do something, and hear that it is done."""
        self.tell(word)
        return self.hear()

    def end(self) -> int:
        """Its exit status, once it has ended by itself."""
        return status_of(self._process)

    def _listen(self) -> None:
        assert self._process.stdout
        with self._process.stdout as said:
            for line in said:
                if line.startswith("{"):
                    self._lines.put(line)
        self._lines.put("")

    def _remember(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.pid)
            for process in (root, *root.children(recursive=True)):
                self._everybody[process.pid, process.create_time()] = process


def _is_tracker(process: psutil.Process) -> bool:
    """A resource tracker of multiprocessing."""
    with contextlib.suppress(psutil.Error):
        return any("resource_tracker" in word for word in process.cmdline())
    return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
