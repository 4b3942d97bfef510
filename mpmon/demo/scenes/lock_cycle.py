"""Two processes take the same two locks in opposite order."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier, Lock

from mpmon.demo.handshake import ready


def write_checkpoint(model: Lock, storage: Lock, together: Barrier) -> None:
    """Hold the model still, then take the disk."""
    with model:
        together.wait()
        ready()
        with storage:
            print("checkpoint written")


def rotate_checkpoints(model: Lock, storage: Lock, together: Barrier) -> None:
    """Take the disk, then hold the model still."""
    with storage:
        together.wait()
        with model:
            print("old checkpoints removed")


def main() -> None:
    """Write and rotate at the same time."""
    model, storage, together = multiprocessing.Lock(), multiprocessing.Lock(), multiprocessing.Barrier(2)
    jobs = [
        multiprocessing.Process(target=job, args=(model, storage, together))
        for job in (write_checkpoint, rotate_checkpoints)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()


if __name__ == "__main__":
    main()
