import json, os, socket
from datetime import timedelta
from multiprocessing import resource_tracker

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 4


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def settle(n):
    """The last of n processes to say where it ends up also says that the state is settled."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            truth("settled")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pass_on(mine, rank, step):
    """Round the ring once: rank 0 starts and takes what comes back."""
    got = torch.empty_like(mine)
    if rank == 0:
        sent = dist.isend(mine, 1, tag=step)
        dist.irecv(got, WORLD - 1, tag=step).wait()
        sent.wait()
    else:
        dist.recv(got, rank - 1, tag=step)  # CULPRIT
        dist.send(mine + got, (rank + 1) % WORLD, tag=step)
    return got


def train(rank):
    truth("role", role=f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(hours=1))
    turn = 0
    for step in range(1000):
        if step == 20:
            truth("culprit" if rank == 2 else "waiter", thread="MainThread")
            settle(WORLD + 1)
        if step == 20 and rank == 2:
            turn += 1
        pass_on(torch.ones(64), rank, turn)
        turn += 1


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    truth("waiter")
    resource_tracker.ensure_running()
    truth("role", resource_tracker._resource_tracker._pid, role="process resource_tracker")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    mp.spawn(train, nprocs=WORLD)
