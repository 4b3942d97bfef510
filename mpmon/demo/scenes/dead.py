"""A worker is killed for its memory; the main process still counts on its result.

The queues are the ones without feeder threads (`SimpleQueue`): a worker killed in `render` holds none of their locks, so
the missing result is the only thing that is wrong.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue

from mpmon.demo.handshake import ready

FRAMES = 24
HUGE_FRAME = 7


def render(frame: int) -> int:
    """One picture; the huge one ends as the kernel's out-of-memory killer ends it."""
    if frame == HUGE_FRAME:
        os.kill(os.getpid(), signal.SIGKILL)
    return frame * frame


def render_worker(frames: SimpleQueue[int], pictures: SimpleQueue[int]) -> None:
    """Render what is asked for, for ever."""
    while True:
        pictures.put(render(frames.get()))


def collect(pictures: SimpleQueue[int], workers: Sequence[BaseProcess]) -> list[int]:
    """One picture for each frame."""
    collected = [pictures.get() for _ in range(FRAMES - 1)]
    wait([worker.sentinel for worker in workers])
    ready()
    collected.append(pictures.get())
    return collected


def main() -> None:
    """Render all frames with three workers."""
    frames: SimpleQueue[int] = multiprocessing.SimpleQueue()
    pictures: SimpleQueue[int] = multiprocessing.SimpleQueue()
    workers = [multiprocessing.Process(target=render_worker, args=(frames, pictures), daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
    for frame in range(FRAMES):
        frames.put(frame)
    collect(pictures, workers)


if __name__ == "__main__":
    main()
