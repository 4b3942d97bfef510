import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp

import torch
import torch.distributed as dist

STORE = os.path.abspath("store")
LENGTHS = (5, 3)


def shard(rank):
    for index in range(LENGTHS[rank]):
        yield torch.full((4,), float(index))


def train(rank):
    model = torch.zeros(4)
    rate = torch.tensor([0.1])
    epoch = 0
    while epoch < 3:
        dist.broadcast(rate, src=0)  # CULPRIT
        for batch in shard(rank):
            step(model, batch, rate)
        epoch += 1
        if epoch == 1 and rank == 1:
            say("settled")


def step(model, batch, rate):
    gradient = model - batch
    dist.all_reduce(gradient)
    model -= rate * gradient / 2


def run(rank):
    say("role", role=f"rank {rank}")
    if rank == 1:
        say("culprit", thread="MainThread")
    dist.init_process_group("gloo", init_method=f"file://{STORE}", rank=rank, world_size=2)
    train(rank)


def main():
    say("root")
    say("role", role="main")
    ranks = [mp.Process(target=run, args=(rank,)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()


if __name__ == "__main__":
    main()
