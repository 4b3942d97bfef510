"""DDP on gloo: three ranks, each with two workers of a loader."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from orders import DATA, FOLDER, compute, ordered, say
from torch.utils.data import DataLoader, Dataset

RANKS = 3


class Rows(Dataset):
    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        if ordered("spins"):
            while True: pass  # WRONG spins  # noqa: E701  # fmt: skip
        with open(DATA) as file:  # WRONG fifo
            return torch.full((64,), float(len(file.read()) + compute(2000) % 7))


def rank_main(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{FOLDER}/store", rank=rank, world_size=RANKS)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    batches = iter(DataLoader(Rows(), 4, num_workers=2, sampler=range(1 << 40)))
    for step, batch in enumerate(batches):
        optimizer.zero_grad()
        if ordered("turns"):
            dist.barrier()  # WRONG turns
        model(batch).sum().backward()
        optimizer.step()
        if step == 20:
            workers = [worker.pid for worker in batches._workers]
            say(**{f"rank{rank}": os.getpid(), f"worker{rank}": workers[0]})


if __name__ == "__main__":
    mp.spawn(rank_main, nprocs=RANKS)
