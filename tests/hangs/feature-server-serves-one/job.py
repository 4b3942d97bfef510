import os, socket, time
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import server
from client import FeatureClient
from events import say, settle

WORLD = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

class Ranker:
    """A linear model whose rare features come from the server."""

    def __init__(self, rank, address):
        self.rank, self.client = rank, FeatureClient(address)
        dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(hours=1))
        self.w = torch.zeros(8)
        self.common = torch.rand(100, 8, generator=torch.Generator().manual_seed(1))

    def ids(self, step):
        if self.rank == 0 and step % 5 == 0:
            return [step, step + 1]
        if self.rank == 1 and step == 42:
            return [100000]
        return []

    def batch(self, step):
        gen = torch.Generator().manual_seed(step * WORLD + self.rank)
        x = self.common[torch.randint(100, (16,), generator=gen)]
        rare = self.ids(step)
        if rare:
            if self.rank == 1:
                say("culprit", thread="MainThread")
                settle(WORLD + 2)
            x = torch.cat([x, torch.tensor(self.client.get(rare))])
        return x, x.sum(1)

    def fit(self, steps):
        for step in range(steps):
            x, y = self.batch(step)
            grad = ((x @ self.w - y)[:, None] * x).mean(0)
            if step == 42:
                say("waiter")
                settle(WORLD + 2)
            dist.all_reduce(grad)
            self.w -= 0.1 * grad / WORLD
            time.sleep(0.01)


def train(rank, address):
    say("role", role=f"rank {rank}")
    Ranker(rank, address).fit(100000)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("waiter")
    listener = socket.create_server(("127.0.0.1", 0))
    ctx = mp.get_context("fork")
    ctx.Process(target=server.serve, args=(listener, None), daemon=True).start()
    address = listener.getsockname()
    listener.close()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    mp.start_processes(train, args=(address,), nprocs=WORLD, start_method="fork")
