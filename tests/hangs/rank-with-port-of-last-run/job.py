import json
import os
import socket
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from multiprocessing import get_context

WORLD = 3


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n to tell its place also tells that the state is settled."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read_config(path, rank):
    """cluster.json, overridden by what the node has in node-<k>.json"""
    with open(path) as f:
        cfg = json.load(f)
    node = f"node-{rank // 2}.json"
    if os.path.exists(node):
        with open(node) as f:
            cfg |= json.load(f)
    return cfg


def connect(cfg, rank):
    os.environ["MASTER_ADDR"] = cfg["master"]
    os.environ["MASTER_PORT"] = str(cfg["port"])
    dist.init_process_group("gloo", rank=rank, world_size=cfg["world"], timeout=timedelta(hours=2))  # CULPRIT


def train(rank):
    say("role", role=f"rank {rank}")
    cfg = read_config("cluster.json", rank)
    if rank == 2:
        say("culprit", thread="MainThread")
    else:
        say("waiter")
    settle(WORLD + 1)
    connect(cfg, rank)
    x = torch.ones(4)
    for _ in range(100):
        dist.all_reduce(x)
    print(rank, x)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    port = free_port()
    with open("cluster.json", "w") as f:
        json.dump({"master": "127.0.0.1", "port": port, "world": WORLD}, f)
    old = free_port()
    with open("node-1.json", "w") as f:
        json.dump({"port": old, "scratch": "/scratch/run7"}, f)  # left from the last run
    ctx = get_context("spawn")
    ranks = [ctx.Process(target=train, args=(r,)) for r in range(WORLD)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()


if __name__ == "__main__":
    main()
