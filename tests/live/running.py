"""Start a program, hear that it is ready, end it with all it started."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import psutil

from mpmon.diagnosis.findings import Observation
from mpmon.probes.files import Proc
from mpmon.session.sampler import Sampler
from mpmon.session.watch import LiveWatch
from tests.patience import left_of, patience

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = PROGRAMS.parent.parent.parent
LONGEST_S = 25.0

TRACKERS_S = 5.0
"""How long a tracker has for its end by itself, once all that it serves have ended."""


@final
class Program:
    """One of `programs/`, from ready to gone."""

    def __init__(
        self, name: str, *arguments: str, python: str = sys.executable, environment: Mapping[str, str] | None = None,
        inside: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`inside` is a command that starts it, as unshare(1) does."""
        self.file = PROGRAMS / name
        self.pids: dict[str, int] = {}
        self._folder = tempfile.TemporaryDirectory(dir="/tmp")
        pipe = Path(self._folder.name) / "ready"
        os.mkfifo(pipe)
        # Open for both, so that it has no end while nobody writes.
        self._ready = os.open(pipe, os.O_RDWR)
        self._heard = b""
        own = {
            "READY": str(pipe),
            "PYTHONPATH": os.pathsep.join(map(str, (PROGRAMS, self.file.parent))),
            "OMP_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [*inside, python, str(self.file), *arguments], env={**os.environ, **own, **(environment or {})},
            stdin=subprocess.PIPE, start_new_session=True, cwd="/",
        )  # fmt: skip
        self._seen: dict[tuple[int, float], psutil.Process] = {}
        self._over = False

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self._over:
            return
        self._over = True
        self._remember()
        trackers = [process for process in self._seen.values() if _is_tracker(process)]
        for process in self._seen.values():
            if process not in trackers:
                _kill(process)
        # They end with the last of those they serve, and take the named semaphores with them.
        for process in left_of(trackers, TRACKERS_S):
            _kill(process)
        os.close(self._ready)
        self._folder.cleanup()
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()
        left = left_of(list(self._seen.values()))
        assert not left, left

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self, *names: str, seconds: float = LONGEST_S) -> Program:
        """Wait for lines until all these were said."""
        for pause in patience(seconds):
            if set(names) <= self.pids.keys():
                self._remember()
                return self
            if self._process.poll() is not None:
                break
            if select.select([self._ready], [], [], pause)[0]:
                self._listen()
        self.__exit__()
        raise AssertionError(f"{self.file.name} did not say {names}, only {list(self.pids)}")

    def _listen(self) -> None:
        *lines, self._heard = (self._heard + os.read(self._ready, 4096)).split(b"\n")
        for line in lines:
            self.pids.update(json.loads(line))

    def tell(self) -> None:
        """A word, for which it waits."""
        assert self._process.stdin
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def line(self, mark: str = "# STUCK") -> int:
        """The number of the line with a mark."""
        lines = self.file.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if re.search(mark, line))

    def family(self) -> list[psutil.Process]:
        """It and all that it started and that still lives."""
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]

    def _remember(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in self.family():
                self._seen[process.pid, process.create_time()] = process
        for pid in self.pids.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.create_time() >= psutil.Process().create_time():
                    self._seen[pid, process.create_time()] = process


def _is_tracker(process: psutil.Process) -> bool:
    """It is the resource tracker of multiprocessing."""
    with contextlib.suppress(psutil.Error):
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def sampler(pid: int) -> Sampler:
    """The real one, on the real /proc, with the real py-spy."""
    return Sampler(Proc(), pid, now=time.time, host="host", eager=True)


def watch(
    pid: int, *, seconds: float | None = None, interval: float = 0.5,
    enough: Callable[[Observation], bool] = lambda seen: bool(seen.diagnosis.findings),
) -> Observation:  # fmt: skip
    """What mpmon says as soon as it hangs, or after so long; without `seconds` after what is long enough on any machine."""
    watched = LiveWatch(lambda now: Sampler(Proc(), pid, now=now, host="host", eager=True), interval=interval)
    last: Observation | None = None
    left = patience(LONGEST_S)
    for last in watched:
        over = next(left, None) is None if seconds is None else last.watched_s >= seconds
        if over or enough(last):
            watched.stop()
    assert last is not None
    return last


def py_spies(pid: int) -> list[psutil.Process]:
    """Every py-spy that looks at a process."""
    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        command = process.info["cmdline"] or []
        if process.info["name"] == "py-spy" and str(pid) in command:
            found.append(process)
    return found
