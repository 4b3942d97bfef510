import json
import os
import queue
import socket
import threading
import time
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to say where it ends up also says that the state is settled."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Saver:
    """Writes checkpoints in the background; a checkpoint counts once all ranks have written theirs."""

    def __init__(self, rank):
        self.rank = rank
        self.todo = queue.Queue()
        self.done = 0
        threading.Thread(target=self.run, name="saver", daemon=True).start()

    def run(self):
        while True:
            step, state = self.todo.get()
            if self.rank == 0:
                time.sleep(1)  # the shard of rank 0 has the optimizer, it is larger
            torch.save(state, f"shard-{self.rank}-{step % 2}.pt")
            dist.barrier()  # CULPRIT
            self.done = step

    def save(self, step, model):
        self.todo.put((step, {k: v.clone() for k, v in model.items()}))


def train(rank):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(hours=1))
    saver = Saver(rank)
    model = {"w": torch.zeros(64, 64)}
    dist.barrier()
    for step in range(1000):
        grad = torch.randn(64, 64)
        if step == 20:
            saver.save(step, model)
            if rank == 1:
                time.sleep(0.5)  # validation; the saver is quicker
            say("culprit", thread="MainThread")
            settle(WORLD + 1)
        dist.all_reduce(grad)  # CULPRIT
        model["w"] -= 0.1 * grad / WORLD


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("waiter")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    ctx = mp.get_context("fork")
    ranks = [ctx.Process(target=train, args=(r,)) for r in range(WORLD)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
