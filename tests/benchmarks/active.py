"""A job that moves as training does: a launcher, ranks that step, and loader workers forked from each rank.

`python -m tests.benchmarks.active 64` is the launcher.  It starts a rank for each eight processes, eight ranks at most.  A
rank has eight threads: one steps ten times a second and computes for 5 % of the time, two look at an event once or twice a
second, five wait.  Its workers have two threads and look into a pipe twice a second.  Nobody ever waits for nothing, so that
a monitor finds changed counters in most processes at every look.
When all of them run, the launcher writes one line of JSON: the pids, its own first.
All of them die with whoever started them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

from tests.benchmarks.job import ROOT, die_with_parent

PROCESSES_A_RANK, MOST_RANKS = 8, 8
PERIOD_S, BUSY_SHARE = 0.1, 0.05
"""Of a step, and how much of it computes."""
PIN_LOOK_S, WATCHDOG_LOOK_S, WORKER_LOOK_S = 1.0, 0.5, 0.5
WAITING_THREADS = 5


def train_step() -> None:
    """Compute as Python that launches kernels does, then wait for the device."""
    ready = time.perf_counter() + BUSY_SHARE * PERIOD_S
    while time.perf_counter() < ready:
        sum(range(50))
    time.sleep(PERIOD_S * (1 - BUSY_SHARE))


def look_again(event: threading.Event, seconds: float) -> None:
    """Look at an event that never comes, once in so many seconds."""
    while not event.wait(seconds):
        pass


def load(parent: int, indexes: int) -> None:
    """Be a loader's worker that is given nothing."""
    die_with_parent(parent)
    threading.Thread(target=threading.Event().wait, name="QueueFeederThread", daemon=True).start()
    while not select.select([indexes], [], [], WORKER_LOOK_S)[0]:
        sum(range(2000))


def fork_worker(parent: int, pipe: tuple[int, int]) -> int:
    """Pid of a new worker."""
    indexes, other_end = pipe
    pid = os.fork()
    if pid == 0:
        os.close(other_end)
        load(parent, indexes)
        os._exit(0)
    return pid


def rank(parent: int, workers: int) -> None:
    """Fork the workers, start the threads, say who there is, train."""
    die_with_parent(parent)
    pipe = os.pipe()
    children = [fork_worker(os.getpid(), pipe) for _ in range(workers)]
    stop = threading.Event()
    looks = ((look_again, (stop, PIN_LOOK_S)), (look_again, (stop, WATCHDOG_LOOK_S)))
    for target, given in (*looks, *[(stop.wait, ())] * WAITING_THREADS):
        threading.Thread(target=target, args=given, daemon=True).start()
    print(json.dumps([os.getpid(), *children]), flush=True)
    while True:
        train_step()


def launch(processes: int) -> None:
    """Start the ranks, say who there is, wait for their end."""
    die_with_parent(os.getppid())
    ranks = max(1, min(MOST_RANKS, processes // PROCESSES_A_RANK))
    whole, more = divmod(processes - 1 - ranks, ranks)
    words = [sys.executable, "-m", "tests.benchmarks.active", "rank", str(os.getpid())]
    children = [
        subprocess.Popen([*words, str(whole + (number < more))], cwd=ROOT, stdout=subprocess.PIPE)
        for number in range(ranks)
    ]
    pids = [os.getpid()]
    for child in children:
        pids += json.loads(child.stdout.readline() if child.stdout else b"[]")
    print(json.dumps(pids), flush=True)
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank(int(sys.argv[2]), int(sys.argv[3]))
    else:
        launch(int(sys.argv[1]))
