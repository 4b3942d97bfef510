"""Of three ranks one has left the loop and gathers; the others are in two collectives of a step."""

import json
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def step(model, rank, number):
    flag = torch.zeros(1)
    if not (number == 3 and rank == 2):
        dist.broadcast(flag, 0)
    model(torch.ones(4, 8)).sum().backward()
    return flag


def finish(rank):
    say("culprit")
    parts = [torch.zeros(1) for _ in range(3)]
    dist.all_gather(parts, torch.ones(1))  # CULPRIT
    return parts


def fit(model, rank):
    for number in range(10):
        if number == 3:
            if rank == 1:
                break
            say("waiter")
        step(model, rank, number)
    return finish(rank)


def train(rank, store):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    if rank == 0:
        say("settled")
    fit(model, rank)


def main():
    say("root")
    say("role", role="main")
    mp.spawn(train, args=(os.path.abspath("store"),), nprocs=3)


if __name__ == "__main__":
    main()
