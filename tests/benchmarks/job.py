"""A job to measure on: a trainer with many loader workers, without torch, small in memory.

`python -m tests.benchmarks.job 64` is the root: it forks 63 workers, each process has four threads.
Ten times a second the root gives a few workers an index and waits for their batches; the others wait in their pipes.
With `--hung` nobody is given anything: the root waits for batches that never come.
With `--stuck asleep` one worker sleeps a day over its batch; with `--stuck holding` it does so while it holds the lock
that all others then wait for. Either way it is the first worker that must move first.
With `--board FD` one worker is the ticker of `tests.benchmarks.ticker` instead.
When all of them wait, the root writes one line of JSON: the pids, the root's first, the ticker's last.
All of them die with whoever started them.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tests.benchmarks import ticker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Lock
    from types import TracebackType

    from typing_extensions import Self

Stuck = Literal["asleep", "holding"]
"""How the first worker is stuck."""

ROOT = Path(__file__).resolve().parents[2]
"""The folder from which `tests` and `mpmon` are imported."""

THREADS = 4
BUSY_WORKERS = 4
PERIOD_S = 0.1
BATCH_S = 0.001
DAY_S = 86400.0
START_S = 60.0
END_S = 10.0
PR_SET_PDEATHSIG = 1


class Job:
    """The job as a context: running at entry, gone with all its processes at exit."""

    def __init__(
        self,
        processes: int,
        *,
        hung: bool = False,
        stuck: Stuck | None = None,
        board: int | None = None,
        threads: int = THREADS,
        active: bool = False,
    ) -> None:
        """Describe a job of so many processes, the root included; `board` is the ticker's shared memory.

        `threads` are those of each worker, its main thread included.  An `active` job is that of `tests.benchmarks.active`,
        for which nothing else can be chosen.
        """
        self._command = [sys.executable, "-m", "tests.benchmarks.job", str(processes), "--threads", str(threads)]
        if active:
            self._command = [sys.executable, "-m", "tests.benchmarks.active", str(processes)]
        self._command += ["--hung"] if hung else []
        self._command += [] if stuck is None else ["--stuck", stuck]
        self._command += [] if board is None else ["--board", str(board)]
        self._kept = () if board is None else (board,)
        self.pids: tuple[int, ...] = ()
        """The root and its children, known once it runs."""
        self._pidfds: tuple[int, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> int:
        """Pid of the process that forked the others."""
        return self.pids[0]

    @property
    def culprit(self) -> int:
        """Pid of the worker that is stuck, in a job that has one."""
        return self.pids[1]

    def __enter__(self) -> Self:
        """Start the job and wait until every process of it is where it will wait."""
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=self._kept
        )
        try:
            self.pids = self._handshake(self._process)
            self._pidfds = tuple(os.pidfd_open(pid) for pid in self.pids[1:])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the root; the kernel kills its children; wait until the last is gone."""
        self._end()

    def _handshake(self, process: subprocess.Popen[bytes]) -> tuple[int, ...]:
        out = process.stdout
        if out is None or not select.select([out], [], [], START_S)[0]:
            message = f"the job did not start within {START_S:.0f} s"
            raise TimeoutError(message)
        line = out.readline()
        if not line:
            message = "the job ended while it started"
            raise RuntimeError(message)
        return tuple(json.loads(line))

    def _end(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
        deadline = time.monotonic() + END_S
        for pidfd in self._pidfds:
            if not select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends; end here when that was already too late."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def start_idle_threads(threads: int = THREADS) -> None:
    """Add threads that wait for ever, as every real trainer has them, until there are so many."""
    threading.stack_size(256 * 1024)
    for _ in range(threads - 1):
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def keep_only(descriptors: set[int]) -> None:
    """Close what was inherited for the siblings, so that every worker has as many files as in a small job."""
    opened = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    for fd in opened:
        if fd not in descriptors | {0, 1, 2}:
            with contextlib.suppress(OSError):  # the one that listed the folder is gone
                os.close(fd)


def worker(parent: int, pipe: tuple[Connection, Connection], batches: Connection, turn: Lock, threads: int) -> None:
    """Answer every index with a batch that took a millisecond to make; get stuck where the index says so."""
    indexes, other_end = pipe  # held open, so that the end of the root is no end of file but the end of the worker
    die_with_parent(parent)
    keep_only({indexes.fileno(), other_end.fileno(), batches.fileno()})
    start_idle_threads(threads)
    put(batches, turn)
    while True:
        index = indexes.recv()
        if index == "asleep":
            time.sleep(DAY_S)
        elif index == "holding":
            sleep_with_lock(batches, turn)
        ready = time.thread_time() + BATCH_S
        while time.thread_time() < ready:
            pass
        put(batches, turn)


def ticking_worker(parent: int, board: int, batches: Connection, turn: Lock) -> None:
    """Tick for ever instead of waiting for indexes; no other thread, so that its gaps are not the interpreter's own."""
    die_with_parent(parent)
    keep_only({board, batches.fileno()})
    put(batches, turn)
    batches.close()  # who still could send a batch would keep a hung job from being one
    ticker.tick(board)


def put(batches: Connection, turn: Lock) -> None:
    """Send a batch, one worker at a time."""
    with turn:
        batches.send(os.getpid())


def sleep_with_lock(batches: Connection, turn: Lock) -> None:
    """Take the turn of all and keep it; the batch says that it is taken."""
    with turn:
        batches.send(os.getpid())
        time.sleep(DAY_S)


def get_stuck(stuck: str, indexes: list[Connection], batches: Connection) -> None:
    """Ask the first worker to get stuck, and where it takes the lock with it, let all others want it."""
    indexes[0].send(stuck)
    if stuck == "holding":
        batches.recv()
        for number, pipe in enumerate(indexes[1:], 1):
            pipe.send(number)


def train(indexes: list[Connection], batches: Connection) -> None:
    """Give a few workers something to do, wait for their batches, again."""
    busy = indexes[:BUSY_WORKERS]
    while True:
        for number, pipe in enumerate(busy):
            pipe.send(number)
        for _ in busy:
            batches.recv()
        time.sleep(PERIOD_S)


def main() -> None:
    """Be the root of the job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("processes", type=int, help="processes of the job, the root included")
    parser.add_argument("--hung", action="store_true", help="nobody is given anything to do")
    parser.add_argument("--stuck", choices=get_args(Stuck), help="how the first worker gets stuck")
    parser.add_argument("--threads", type=int, default=THREADS, help="threads of each worker")
    parser.add_argument("--board", type=int, help="descriptor of the ticker's shared memory")
    options = parser.parse_args()
    die_with_parent(os.getppid())
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    fork = multiprocessing.get_context("fork")
    batches, answer = Pipe(duplex=False)
    turn, root = fork.Lock(), os.getpid()
    tickers = 0 if options.board is None else 1
    pipes = [Pipe(duplex=False) for _ in range(options.processes - 1 - tickers)]
    children = [fork.Process(target=worker, args=(root, pipe, answer, turn, options.threads)) for pipe in pipes]
    if tickers:
        children.append(fork.Process(target=ticking_worker, args=(root, options.board, answer, turn)))
    for child in children:
        child.daemon = True
        child.start()
    for _ in children:
        batches.recv()
    start_idle_threads()
    indexes = [writer for _, writer in pipes]
    if options.stuck:
        get_stuck(options.stuck, indexes, batches)
    print(json.dumps([root, *(child.pid for child in children)]), flush=True)
    if options.hung or options.stuck:
        batches.recv()
    train(indexes, batches)


if __name__ == "__main__":
    main()
