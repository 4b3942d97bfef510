"""A program of our own: started, commanded by lines of words, answering in lines of JSON, ended with all it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from mpmon import start

START_S = 90.0
"""Time limit for the first answer: torch with CUDA takes long to import from a cold disk."""
ANSWER_S = 30.0
"""Time limit for each later answer."""
END_S = 5.0
CHUNK = 1 << 16


class Silent(Exception):
    """The program has ended, or does not answer in time; the message holds its last line on standard error."""


class Program:
    """One program, from its start to the end of all that it started."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mpmon-doctor-")
        self._errors = Path(self._folder.name) / "errors"
        self._heard = b""
        self._seen: dict[tuple[int, float], psutil.Process] = {}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                start.command(module, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd="/",
                env={**os.environ, "TMPDIR": self._folder.name, **(environment or {})}, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._remember()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        processes = list(self._seen.values())
        trackers = [process for process in processes if _is_tracker(process)]
        for process in processes:
            if process not in trackers:
                _kill(process)
        self._process.kill()
        # They end after the processes they serve, and remove their semaphores.
        for process in psutil.wait_procs(trackers, timeout=END_S)[1]:
            _kill(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        psutil.wait_procs(processes, timeout=END_S)
        for pid in {pid for pid, _ in self._seen}:
            for left in linked(pid):
                left.unlink(missing_ok=True)
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """The pid of the program itself."""
        return self._process.pid

    def hear(self, seconds: float = START_S) -> dict[str, Any]:
        """The next answer.

        Raises:
            Silent: it does not answer in time, or not any more.
        """
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            chunk = self._chunk(deadline - time.monotonic())
            if not chunk:
                ending = "it says nothing" if chunk is None else self._ending()
                raise Silent(f"{ending}: {self._complaint()}")
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        self._remember()
        return json.loads(line)

    def order(self, *words: str, seconds: float = ANSWER_S) -> dict[str, Any]:
        """Send a command, and return the answer. Raises: Silent."""
        stdin = self._process.stdin
        if stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(" ".join(words).encode() + b"\n")
                stdin.flush()
        return self.hear(seconds)

    def _chunk(self, seconds: float) -> bytes | None:
        """Empty at the end of output, `None` if nothing comes in time."""
        stdout = self._process.stdout
        if stdout is None or seconds <= 0 or not select.select([stdout], [], [], seconds)[0]:
            return None
        return os.read(stdout.fileno(), CHUNK)

    def _ending(self) -> str:
        """How a program that stopped answering ended."""
        try:
            return f"it ended with status {self._process.wait(END_S)}"
        except subprocess.TimeoutExpired:
            return "it does not end"

    def _complaint(self) -> str:
        lines = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "no word on standard error"

    def _remember(self) -> None:
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self.pid)
            for process in (root, *root.children(recursive=True)):
                self._seen[process.pid, process.create_time()] = process


def linked(pid: int) -> list[Path]:
    """The shared memory that a process made with torch and that is still linked."""
    return sorted(Path("/dev/shm").glob(f"torch_{pid}_*"))


def _is_tracker(process: psutil.Process) -> bool:
    """A resource tracker of multiprocessing."""
    with contextlib.suppress(psutil.Error):
        return any("resource_tracker" in word for word in process.cmdline())
    return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()
