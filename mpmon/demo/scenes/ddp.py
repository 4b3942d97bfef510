"""Four ranks train together; one of them saves its model, and waits for the others in a barrier that they do not come to.

They have gone on to the next step, and wait for its gradients.
"""

from __future__ import annotations

import tempfile

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from mpmon.demo.handshake import ready
from mpmon.demo.ranks import WORLD, join

BEST_STEP = 30


def average(gradient: torch.Tensor) -> torch.Tensor:
    """Over all ranks."""
    dist.all_reduce(gradient)
    return gradient / WORLD


def save_best(weight: torch.Tensor, folder: str) -> None:
    """Save the model, and let nobody go on before it is complete."""
    torch.save(weight, f"{folder}/best.pt")
    ready()
    dist.barrier()


def train(rank: int, folder: str) -> None:
    """Train; only rank 2 has seen its best loss, which is the defect: its loss is its own."""
    join(rank, folder)
    weight = torch.zeros(16)
    for step in range(1000):
        gradient = weight - torch.full((16,), float(rank))
        weight -= 0.1 * average(gradient)
        if rank == 2 and step == BEST_STEP:
            save_best(weight, folder)


def main() -> None:
    """Start the ranks and wait for them."""
    with tempfile.TemporaryDirectory() as folder:
        start_processes(train, (folder,), nprocs=WORLD, start_method="fork")


if __name__ == "__main__":
    main()
