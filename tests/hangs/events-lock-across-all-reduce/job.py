import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import fcntl
import multiprocessing as mp
import time

import torch
import torch.distributed as dist


def write_events(rows):
    say("role", role="process write_events")
    say("culprit", thread="MainThread")
    while True:
        row = rows.get()
        with open("run.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # CULPRIT
            print(len(row))


def save():
    with open("run.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        time.sleep(0.5)
        say("settled")
        dist.all_reduce(torch.ones(1))  # CULPRIT


def train(rank, rows):
    say("role", role=f"rank {rank}")
    if rank != 1:
        say("culprit", thread="MainThread")
    dist.init_process_group("gloo", init_method=f"file://{COMMON}", rank=rank, world_size=3)
    dist.barrier()
    if rank == 0:
        time.sleep(0.2)
        for _ in range(64):
            rows.put("x" * 20_000)  # CULPRIT
    if rank == 2:
        save()
    else:
        dist.all_reduce(torch.ones(1))


COMMON = os.path.abspath("store")


def main():
    say("root")
    say("role", role="main")
    rows = mp.SimpleQueue()
    mp.Process(target=write_events, args=(rows,), daemon=True).start()
    ranks = [mp.Process(target=train, args=(rank, rows)) for rank in range(3)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()


if __name__ == "__main__":
    main()
