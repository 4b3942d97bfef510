import json, os, socket
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from prepare import prepare_data

WORLD = 3

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

def waiting():
    say("waiter")
    settle(WORLD + 1)


def train(rank, port):
    say("role", role=f"rank {rank}")
    store = dist.TCPStore("127.0.0.1", port, WORLD, is_master=rank == 0, timeout=timedelta(hours=4))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=timedelta(hours=4))
    index = prepare_data(dist.PrefixStore("app", store), rank, "data", waiting)
    if rank == 0:
        say("culprit", thread="MainThread")
        settle(WORLD + 1)
    dist.barrier()  # CULPRIT
    for step in range(len(index)):
        dist.all_reduce(torch.ones(10))


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("waiter")
    mp.start_processes(train, args=(free_port(),), nprocs=WORLD, start_method="fork")
