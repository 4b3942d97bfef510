"""A job of several ranks that add up numbers for ever; STUCK is the rank that from the third step on waits for nobody's data.

Rank 0 says when it has come to that step.

Started by srun or by hand; says what it does to its standard output.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
os.environ.update(RANK=str(RANK), WORLD_SIZE=os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))


def next_batch(step: int) -> torch.Tensor:
    if step == 3 and int(os.environ["STUCK"]) == RANK:
        print("stuck", flush=True)
        data, _ = os.pipe()
        os.read(data, 1)  # STUCK
    return torch.ones(4)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step = 0
    while True:
        if step == 3 and RANK == 0:
            print("going", flush=True)
        batch = next_batch(step)
        dist.all_reduce(batch)
        step += 1


main()
