"""How long tests wait for what they started: on a machine that has others to serve for as long as it takes.

A test that waits counts time in which this process and those below it slept or ran; what they spent in the queue for a CPU
hardly counts (the second number of /proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst).  So a test fails
after the same time on a busy machine as on an idle one, measured in what was done.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

LONGEST_S = 60.0
NEVER_S = 3600.0
"""For calls that take a limit by the clock and no other: longer than any wait here, however busy the machine is."""
PAUSE_S, GLANCE_S = 0.5, 0.05
"""After which it is counted again, and after which somebody looks who is told nothing."""
LEAST_SHARE = 0.1
"""Of the time that passes counts in any case, so that a wait has an end whatever the machine does."""


class Counted:
    """A stopwatch of the time that counts."""

    def __init__(self, also: int | None = None) -> None:
        """`also` is a process that is none of ours and has to do with it."""
        self._also = also
        self._at, self._queued = time.monotonic(), _queued_ns(also)
        self.seconds = 0.0

    def passed_s(self) -> float:
        """Since it was read last; by the clock."""
        return time.monotonic() - self._at

    def read(self) -> float:
        """Seconds so far."""
        passed, queued = self.passed_s(), _queued_ns(self._also)
        self.seconds += counted(passed, _more_s(self._queued, queued))
        self._at, self._queued = self._at + passed, queued
        return self.seconds


def patience(seconds: float = LONGEST_S, pause_s: float = PAUSE_S, *, also: int | None = None) -> Iterator[float]:
    """How long to wait next, until so many seconds were waited for in vain; `also` for a process that is none of ours."""
    watch = Counted(also)
    while (left := seconds - watch.seconds) > 0:
        yield min(pause_s, left)
        if watch.passed_s() >= min(PAUSE_S, left):
            watch.read()


def counted(passed_s: float, queued_s: float) -> float:
    """Seconds that count of those that passed while threads were kept waiting for a CPU for so long together."""
    return max(passed_s - queued_s, LEAST_SHARE * passed_s)


def becomes(is_so: Callable[[], object], *, seconds: float = LONGEST_S, pause_s: float = GLANCE_S) -> bool:
    """It has become so; `False` when it did not in time."""
    for pause in patience(seconds, pause_s):
        if is_so():
            return True
        time.sleep(pause)
    return bool(is_so())


def readable(source: int | IO[Any], *, seconds: float = LONGEST_S) -> bool:
    """There is something to be read from a descriptor, or it has come to its end; `False` when neither did in time."""
    return any(select.select([source], [], [], pause)[0] for pause in patience(seconds))


def status_of(process: subprocess.Popen[Any], seconds: float = LONGEST_S) -> int:
    """Its exit status, once it has ended by itself."""
    for pause in patience(seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(pause)
    raise AssertionError(f"{process.args!r} does not end")


def left_of(processes: Sequence[psutil.Process], seconds: float = LONGEST_S) -> list[psutil.Process]:
    """Those that have not ended in time."""
    left = list(processes)
    for pause in patience(seconds):
        left = psutil.wait_procs(left, timeout=pause)[1]
        if not left:
            break
    return left


def rest_of(process: subprocess.Popen[Any], said: Any = None, *, seconds: float = LONGEST_S) -> tuple[Any, Any]:
    """What it still says and complains of to its end, as `communicate`; `said`, a few words, goes to its standard input."""
    if said:
        assert process.stdin
        process.stdin.write(said)
    for pause in patience(seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=pause)
    raise AssertionError(f"{process.args!r} does not end")


def ran(
    command: Sequence[str | os.PathLike[str]], *, said: str | None = None, seconds: float = LONGEST_S, **more: Any
) -> subprocess.CompletedProcess[Any]:
    """What a program did from its beginning to its end; `more` as `subprocess.Popen` takes it."""
    # A file: `communicate` of Python 3.11 does not go on writing after a timeout.
    with tempfile.TemporaryFile() as words:
        if said is not None:
            words.write(said.encode())
            words.seek(0)
            more["stdin"] = words
        given = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        with subprocess.Popen(command, **given) as process:
            try:
                stdout, stderr = rest_of(process, seconds=seconds)
            except BaseException:
                process.kill()
                raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _queued_ns(also: int | None = None) -> dict[int, int]:
    """How long each thread of this process and of all below it has been ready to run and did not; so of `also`."""
    found: dict[int, int] = {}
    processes = [os.getpid(), *([also] if also else [])]
    for pid in processes:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    found[int(task.name)] = int((task / "schedstat").read_bytes().split()[1])
                    processes += map(int, (task / "children").read_bytes().split())
    return found


def _more_s(before: Mapping[int, int], now: Mapping[int, int]) -> float:
    """Seconds between the two; a thread that is new was not queued before."""
    return sum(max(0, ns - before.get(tid, 0)) for tid, ns in now.items()) / 1e9
