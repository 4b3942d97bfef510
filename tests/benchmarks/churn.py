"""A job that never rests for long: workers come and go, each with threads and a queue, and now and then all stand still.

`python -m tests.benchmarks.churn` is the root.  It has 20 workers at a time; each lives for about 0.7 s, has two threads
that wait, puts one item into the queue of all, and ends.  About once a minute one generation of them stays for 12 s, in
which nothing moves.
The root writes a line once the first workers run; it and they die with whoever started it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import select
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from tests.benchmarks.job import END_S, ROOT, START_S, die_with_parent

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from types import TracebackType

    from typing_extensions import Self

WORKERS = 20
SHORTEST_S, LONGEST_S = 0.5, 0.9
"""Of a worker's life."""
PAUSE_S, BETWEEN_PAUSES = 12.0, 1700
"""How long those live that stay, and after how many others: a minute's worth."""


class Churn:
    """The job as a context: running at entry, gone with all its processes at exit."""

    def __init__(self) -> None:
        """Describe the job; it starts at entry."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> int:
        """Pid of the process that forks the others."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        """Start the job and wait until its first workers run."""
        command = [sys.executable, "-m", "tests.benchmarks.churn"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        out = self._process.stdout
        if out is None or not select.select([out], [], [], START_S)[0] or not out.readline():
            self._end()
            message = "the job did not start"
            raise RuntimeError(message)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the root; the kernel kills its children."""
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
                process.wait(END_S)


def worker(parent: int, items: Queue[bytes], seconds: float) -> None:
    """Live for so long, with threads that wait, and put one item."""
    die_with_parent(parent)
    for _ in range(2):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    time.sleep(seconds)
    items.put(bytes(1000))


def main() -> None:
    """Be the root: whoever has put its item is replaced."""
    die_with_parent(os.getppid())
    fork, root, chance = multiprocessing.get_context("fork"), os.getpid(), random.Random(0)
    items: Queue[bytes] = fork.Queue()
    for number in itertools.count():
        if number == WORKERS:
            print(flush=True)
        if number >= WORKERS:
            items.get()
        stays = number % BETWEEN_PAUSES >= BETWEEN_PAUSES - WORKERS
        seconds = PAUSE_S if stays else chance.uniform(SHORTEST_S, LONGEST_S)
        fork.Process(target=worker, args=(root, items, seconds), daemon=True).start()


if __name__ == "__main__":
    main()
