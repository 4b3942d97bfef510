"""Of two leaders of nodes one has left out the sum of the leaders, and is in the barrier of all."""

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
    nodes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    leaders = dist.new_group([0, 2])
    dist.barrier()
    if rank == 0:
        say("settled")
    total, own = torch.ones(1), nodes[rank // 2]
    if rank < 2:
        say("waiter")
        if rank == 0:
            dist.all_reduce(total, group=leaders)
        dist.broadcast(total, 0, group=own)
    if rank == 2:
        say("culprit")
    dist.barrier()  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    mp.spawn(run, args=(os.path.abspath("store"),), nprocs=4)


if __name__ == "__main__":
    main()
