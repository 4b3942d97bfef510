"""A job of ranks that train for ever, each with one DataLoader worker, and do what they are told by files in the folder FAULTS:

- `worker-RANK`: its worker opens a FIFO of the name `fifo`, and goes on when somebody has written to it;
- `mismatch-RANK`: it is in `barrier`, while the others are in `all_reduce`.

Rank 0 writes to `step` how far it has come, each rank its pid to `pid-RANK`. Started by srun.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FAULTS = Path(os.environ["FAULTS"])
RANK = int(os.environ["SLURM_PROCID"])


class Shards(Dataset):
    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        if (told := FAULTS / f"worker-{RANK}").exists():
            told.unlink()
            (FAULTS / "fifo").open().read()  # WORKER
        time.sleep(0.05)
        return torch.ones(4)


def train_on(step: int, batch: torch.Tensor) -> None:
    if (FAULTS / f"mismatch-{RANK}").exists():
        dist.barrier()  # MISMATCH
    dist.all_reduce(batch)  # REDUCE
    if RANK == 0:
        (FAULTS / "step.new").write_text(str(step))
        (FAULTS / "step.new").rename(FAULTS / "step")


def main() -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(RANK), WORLD_SIZE=os.environ["SLURM_NTASKS"])
    (FAULTS / f"pid-{RANK}").write_text(str(os.getpid()))
    dist.init_process_group("gloo")
    for step, batch in enumerate(DataLoader(Shards(), num_workers=1)):
        train_on(step, batch)


main()
