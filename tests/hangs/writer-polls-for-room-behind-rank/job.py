import json
import multiprocessing as mp
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

WORLD = 2


def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def at(kind, n, **kw):
    """Says where this process ends up; the last of n also says that the state is settled."""
    say(kind, **kw)
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

def quota():
    try:
        with open("quota.json") as f:
            return json.load(f)["free"]
    except FileNotFoundError:
        return 1 << 30


def writer(conn):
    say("role", role="process checkpoint writer")
    said = False
    while True:
        name, blob = conn.recv()
        while quota() < len(blob):
            if not said:
                at("culprit", WORLD + 2, thread="MainThread")
                said = True
            time.sleep(1.0)  # CULPRIT
        with open(name, "wb") as f:
            f.write(blob)
        with open("quota.json", "w") as f:
            json.dump({"free": 10}, f)  # what the storage service says now
        conn.send(name)


class AsyncCheckpoint:
    """One save in flight; the next one waits for the last."""

    def __init__(self):
        ctx = mp.get_context("spawn")
        self.conn, other = ctx.Pipe()
        ctx.Process(target=writer, args=(other,), daemon=True).start()
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="ckpt")
        self.pending = None

    def write(self, name, blob):
        self.conn.send((name, blob))
        return self.conn.recv()

    def save(self, step, blob):
        if self.pending:
            if step == 30:
                at("waiter", WORLD + 2)
            print("saved", self.pending.result(), flush=True)
        self.pending = self.pool.submit(self.write, f"step-{step}.pt", blob)


def main():
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo", timeout=timedelta(hours=2))
    rank = dist.get_rank()
    say("role", role=f"rank {rank}")
    ckpt = None
    if rank == 0:
        say("root", os.getppid())
        say("role", os.getppid(), role="launcher")
        at("waiter", WORLD + 2, pid=os.getppid())
        ckpt = AsyncCheckpoint()
    weight = torch.zeros(1000)
    for step in range(1, 1000):
        grad = torch.randn(1000)
        if step == 31 and rank == 1:
            at("waiter", WORLD + 2)
        dist.all_reduce(grad)
        weight -= 0.01 * grad
        if step % 10 == 0 and ckpt:
            ckpt.save(step, weight.numpy().tobytes())


if __name__ == "__main__":
    main()
