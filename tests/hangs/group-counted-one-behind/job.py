import json
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def fit(rank, port):
    say("role", role=f"rank {rank}")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="4")
    dist.init_process_group("gloo")
    validators = None
    for epoch in range(3):
        dist.all_reduce(torch.ones(16))
        if rank and validators is None:
            validators = dist.new_group([1, 2, 3])
        if rank:
            dist.all_reduce(torch.ones(4), group=validators)
        if epoch == 1:
            say("culprit") if rank == 0 else None
            say("settled") if rank == 1 else None
            averaging = dist.new_group([0, 1, 2, 3])  # CULPRIT
            dist.all_reduce(torch.ones(16), group=averaging)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(fit, args=(port,), nprocs=4)
