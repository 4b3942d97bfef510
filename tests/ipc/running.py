"""Start a job, talk to it, end it with all it started, and leave nothing in /dev/shm."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any, final

import psutil

from tests.shim.running import environment

PROGRAMS = Path(__file__).parent / "programs"
LONGEST_S = 60.0


@final
class Job:
    """One of `programs/`: it says what it has done, one JSON object a line, and does what it is told."""

    def __init__(self, program: str, *arguments: str, python: str = sys.executable, **more: str) -> None:
        """With `more` in its environment."""
        self._temporary = tempfile.TemporaryDirectory(dir="/tmp")
        self._process = subprocess.Popen(
            [python, str(PROGRAMS / program), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(None, TMPDIR=self._temporary.name, **more), start_new_session=True,
        )  # fmt: skip
        self._lines: Queue[str] = Queue()
        self._everybody: dict[tuple[int, float], psutil.Process] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._remember()
        last = [process for process in self._everybody.values() if _cleans_up(process)]
        for process in self._everybody.values():
            if process not in last:
                _kill(process)
        # They end after those they serve, and take what these have left in /dev/shm with them.
        _, stay = psutil.wait_procs(last, timeout=10)
        for process in stay:
            _kill(process)
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        psutil.wait_procs(list(self._everybody.values()), timeout=5)
        self._temporary.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> dict[str, Any]:
        """The next thing it says."""
        try:
            line = self._lines.get(timeout=LONGEST_S)
        except Empty:
            raise AssertionError("the job says nothing") from None
        assert line, "the job has ended"
        self._remember()
        return json.loads(line)

    def tell(self, word: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def order(self, word: str) -> dict[str, Any]:
        """Have it do something, and hear that it is done."""
        self.tell(word)
        return self.hear()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put("")

    def _remember(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.pid)
            for process in (root, *root.children(recursive=True)):
                self._everybody[process.pid, process.create_time()] = process


def kill(pid: int) -> None:
    """As the kernel kills for memory; it is gone, or a zombie, when this returns."""
    os.kill(pid, signal.SIGKILL)
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        pass


def stop(*pids: int) -> None:
    """They stand still when this returns."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
            pass


def _cleans_up(process: psutil.Process) -> bool:
    """A resource tracker of multiprocessing, or torch's manager of shared memory."""
    with contextlib.suppress(psutil.Error):
        return any("resource_tracker" in word or "torch_shm_manager" in word for word in process.cmdline())
    return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def torch_files() -> set[str]:
    """What torch has in /dev/shm now."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("torch_")}
