import json
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="4")
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo")
    side = dist.new_group([2, 3])
    loss, aux = torch.ones(8), torch.ones(8)
    for step in range(100):
        late = rank == 3 and step > 20
        if step == 21:
            say("culprit") if rank == 3 else None
            say("settled") if rank == 0 else None
        if late:
            dist.all_reduce(aux, group=side)  # CULPRIT
        dist.all_reduce(loss)
        if rank == 2 or rank == 3 and not late:
            dist.all_reduce(aux, group=side)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(train, args=(port,), nprocs=4)
