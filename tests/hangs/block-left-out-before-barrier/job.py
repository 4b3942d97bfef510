"""Rank 0 receives two blocks of each rank; one has sent a block less and is in the barrier, where another one waits by right."""

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

def run(rank, store):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=4)
    dist.barrier()
    if rank == 0:
        say("settled")
        for source in (1, 2, 3):
            for tag in range(2):
                say("waiter")
                dist.recv(torch.zeros(4), source, tag=tag)
    for tag in range(2 if rank else 0):
        if (rank, tag) != (2, 1):
            dist.send(torch.ones(4), 0, tag=tag)
    if rank == 2:
        say("culprit")
    dist.barrier()  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    mp.spawn(run, args=(os.path.abspath("store"),), nprocs=4)


if __name__ == "__main__":
    main()
