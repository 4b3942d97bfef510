import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp

import torch
import torch.distributed as dist

STAGES = 2
STORE = os.path.abspath("store")


def run(rank):
    say("role", role=f"rank {rank}")
    if rank == 2:
        say("culprit", thread="MainThread")
    dist.init_process_group("gloo", init_method=f"file://{STORE}", rank=rank, world_size=4)
    base, stage = rank // STAGES * STAGES, rank % STAGES
    if rank == 2:
        say("settled")
    for _ in range(3):
        if stage == 0:
            dist.send(torch.ones(1_000_000), dst=stage + 1)  # CULPRIT
        else:
            dist.recv(torch.zeros(1_000_000), src=base)
    dist.barrier()


def main():
    say("root")
    say("role", role="main")
    ranks = [mp.Process(target=run, args=(rank,)) for rank in range(4)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()


if __name__ == "__main__":
    main()
