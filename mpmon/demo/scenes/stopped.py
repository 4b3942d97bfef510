"""A guard stops the DataLoader worker that takes too much memory, and nobody resumes it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from mpmon.demo.handshake import ready
from mpmon.demo.loading import DataLoader

LONG_VIDEO = 29


class Videos:
    """Videos, one of them hours long."""

    def __init__(self, greedy: SimpleQueue[int]) -> None:
        self.greedy = greedy

    def __len__(self) -> int:
        return 200

    def decode(self, frames: int) -> int:
        """Add up what is on the frames."""
        total = 0
        for frame in range(frames):
            total = (total * 31 + frame) & 0xFFFF
        return total

    def __getitem__(self, video: int) -> float:
        if video >= len(self):
            raise IndexError(video)
        if video == LONG_VIDEO:
            self.greedy.put(os.getpid())
        return float(self.decode(10**12 if video == LONG_VIDEO else 10**4))


def is_stopped(pid: int) -> bool:
    """Whether its state in proc_pid_stat(5) is T."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def memory_guard(greedy: SimpleQueue[int]) -> None:
    """Stop the first worker that asks for too much."""
    pid = greedy.get()
    os.kill(pid, signal.SIGSTOP)
    while not is_stopped(pid):
        time.sleep(0.01)
    ready()


def main() -> None:
    """Train on the videos, under a guard."""
    greedy: SimpleQueue[int] = multiprocessing.SimpleQueue()
    threading.Thread(target=memory_guard, args=(greedy,), daemon=True).start()
    mean = 0.0
    for batch in DataLoader(Videos(greedy), batch_size=4, num_workers=2):
        mean += float(sum(batch)) / 4


if __name__ == "__main__":
    main()
