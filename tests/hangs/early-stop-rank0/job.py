import json, os, socket
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from trainer import Trainer

WORLD = 4

def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to say where it ends up also says that the state is settled."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def shard(rank, epoch):
    g = torch.Generator().manual_seed(100 * epoch + rank)
    for _ in range(1):
        xs = [torch.randn(8, 6, generator=g) for _ in range(5)]
    return [(x, x.sum(1, keepdim=True)) for x in xs]


def validate(rank, epoch):
    """Rank 0 has the easy part of the validation set: it stops to improve after epoch 4."""
    return 1 / (1 + (min(epoch, 4) if rank == 0 else epoch))


def train(rank):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(hours=1))
    torch.manual_seed(0)
    told = []

    def next_epoch(epoch):
        if epoch == 8 and rank and not told:
            told.append(1)
            say("waiter")
            settle(WORLD + 1)

    def stopped():
        say("culprit", thread="MainThread")
        settle(WORLD + 1)

    trainer = Trainer(torch.nn.Linear(6, 1), rank, WORLD)
    best = trainer.fit(50, lambda n: shard(rank, n), lambda n: validate(rank, n), next_epoch, stopped)
    print(rank, best)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("waiter")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    ctx = mp.get_context("fork")
    ranks = [ctx.Process(target=train, args=(r,)) for r in range(WORLD)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
