import json
import os

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def init(worker):
    say("role", role=f"dataloader worker {worker}")
    if worker != 2:
        say("waiter")


class Shard:
    def __init__(self, number, n=40):
        self.rows = [number * 1000 + i for i in range(n)]

    def read(self):
        yield from self.rows


class Streaming(IterableDataset):
    """Endless stream: every worker goes round and round over its own shards."""

    def __init__(self, shards):
        self.shards = shards

    def mine(self):
        info = get_worker_info()
        return self.shards[info.id::info.num_workers]

    def __iter__(self):
        shards = self.mine()
        if not shards:
            say("culprit", thread="MainThread")
            say("settled")
        while True:  # CULPRIT
            for shard in shards:  # CULPRIT
                for row in shard.read():
                    if row % 10:
                        yield torch.full((16,), float(row))


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    data = Streaming([Shard(0), Shard(1)])
    loader = DataLoader(data, batch_size=4, num_workers=3, worker_init_fn=init, multiprocessing_context="fork")
    for step, x in enumerate(loader):
        loss = model(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 10_000:
            break
    print("trained")


if __name__ == "__main__":
    main()
