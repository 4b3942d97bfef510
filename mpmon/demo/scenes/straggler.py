"""Nothing hangs: four ranks train together, and three of them wait at every step for the one that reads from a slow disk."""

from __future__ import annotations

import tempfile
import time

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes
from torch.utils.data import DataLoader, Dataset

from mpmon.demo.handshake import ready
from mpmon.demo.ranks import WORLD, join

SLOW_RANK = 2
WARM_AFTER = 10


class Samples(Dataset[float]):
    """Samples without end."""

    def __len__(self) -> int:
        return 10**7

    def __getitem__(self, sample: int) -> float:
        return float(sample % 100)


def compute() -> None:
    """Forward and backward."""
    time.sleep(0.04)


def read_features(rank: int) -> None:
    """From the disk of this rank."""
    time.sleep(0.12 if rank == SLOW_RANK else 0.01)


def average(gradient: torch.Tensor) -> torch.Tensor:
    """Over all ranks."""
    dist.all_reduce(gradient)
    return gradient / WORLD


def train(rank: int, folder: str) -> None:
    """Train until somebody ends it."""
    join(rank, folder)
    weight = torch.zeros(())
    loader = DataLoader(Samples(), batch_size=8, num_workers=1, multiprocessing_context="fork")
    for step, batch in enumerate(loader):
        read_features(rank)
        compute()
        weight -= 0.1 * average(weight - batch.mean())
        if rank == 0 and step == WARM_AFTER:
            ready()


def main() -> None:
    """Start the ranks and wait for them."""
    with tempfile.TemporaryDirectory() as folder:
        start_processes(train, (folder,), nprocs=WORLD, start_method="fork")


if __name__ == "__main__":
    main()
