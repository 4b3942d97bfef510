"""Four ranks train; every third step they gather their losses, unless a loss is not finite."""
import json
import math
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

RANKS = 4


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def report(step, loss, rank):
    rows = [None] * RANKS if rank == 0 else None
    dist.gather_object({"step": step, "loss": loss}, rows, dst=0)
    if rank == 0:
        print(rows, flush=True)


def batch(step, rank):
    rows = torch.ones(16, 8)
    return rows * math.nan if (step, rank) == (5, 2) else rows


def train(rank):
    truth("role", role=f"rank {rank}")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["STORE_PORT"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    if rank == 2:
        truth("culprit")
    for step in range(1000):
        loss = torch.nan_to_num(model(batch(step, rank)).sum())
        loss.backward()  # CULPRIT
        if step % 3 == 2:
            if rank == 0 and step == 5:
                truth("settled")
            if math.isfinite(float(batch(step, rank).sum())):
                report(step, loss.item(), rank)


def main():
    truth("root")
    truth("role", role="main")
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ["STORE_PORT"] = str(free.getsockname()[1])
    multiprocessing.start_processes(train, nprocs=RANKS, start_method="spawn")


if __name__ == "__main__":
    main()
