import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
from pathlib import Path

import torch
import torch.distributed as dist

STORE = os.path.abspath("store")


def prepare(rank):
    if rank == 0:
        Path("vocabulary.txt").write_text("a b c")
        say("settled")
        dist.barrier()  # CULPRIT
    return torch.ones(8) * rank


def train(rank):
    weights = prepare(rank)
    for _ in range(4):
        dist.all_reduce(weights)


def run(rank):
    say("role", role=f"rank {rank}")
    if rank == 0:
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
