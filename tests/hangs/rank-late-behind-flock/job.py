import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import fcntl
import multiprocessing as mp
import time

import torch.distributed as dist

WORLD = 3


def index(ready):
    say("role", role="process index")
    with open("shards.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready.set()
        say("culprit", thread="MainThread")
        while True:
            time.sleep(3600)  # CULPRIT


def train(rank):
    say("role", role=f"rank {rank}")
    say("waiter")
    if rank == 0:
        say("settled")
        with open("shards.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
    method = "file://" + os.path.abspath("meeting")
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=WORLD)
    dist.barrier()


def main():
    say("root")
    say("role", role="launcher")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    context = mp.get_context("fork")
    ready = context.Event()
    context.Process(target=index, args=(ready,), daemon=True).start()
    ready.wait()
    ranks = [context.Process(target=train, args=(rank,)) for rank in range(WORLD)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
