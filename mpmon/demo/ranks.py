"""What the scenes with several ranks share: four of them in one process group of gloo, on this machine alone."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

WORLD = 4


def join(rank: int, folder: str) -> None:
    """Become this rank; the others are met through a file in the folder, and by the loopback interface."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=WORLD)
