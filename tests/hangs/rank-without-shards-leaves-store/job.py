import json
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta

def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def at(kind, n, **kw):
    """Says where this process ends up; the last of n also says that the state is settled."""
    say(kind, **kw)
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

WORLD = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def launch():
    say("root")
    say("role", role="launcher")
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(WORLD),
           "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, "job.py", "evaluate"], env={**env, "RANK": str(r)}) for r in range(WORLD)]
    at("waiter", WORLD + 1)
    for p in ranks:
        if code := p.wait():
            sys.exit(code)


def shards(rank, files=8, per_rank=4):
    return list(range(files))[rank * per_rank:(rank + 1) * per_rank]


def evaluate():
    import torch
    import torch.distributed as dist
    rank = int(os.environ["RANK"])
    say("role", role=f"rank {rank}")
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), WORLD, rank == 0, timedelta(minutes=5))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=timedelta(hours=2))
    model = torch.nn.Linear(32, 4)
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    mine = shards(rank)
    if not mine:
        print(f"rank {rank}: no shards, nothing to do", flush=True)
        at("culprit", WORLD + 1, thread="MainThread", dead=True)
        return
    hits = 0
    for s in mine:
        x = torch.randn(256, 32, generator=torch.Generator().manual_seed(s))
        hits += int((model(x).argmax(1) == s % 4).sum())
        time.sleep(0.1)
    store.set(f"eval/{rank}", str(hits))
    at("waiter", WORLD + 1)
    keys = [f"eval/{r}" for r in range(WORLD)]
    store.wait(keys, timedelta(hours=2))
    total = sum(int(store.get(k)) for k in keys)
    if rank == 0:
        print("accuracy", total / 2048)


if __name__ == "__main__":
    evaluate() if sys.argv[1:] else launch()
