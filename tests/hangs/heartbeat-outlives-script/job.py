import json, os, socket, subprocess, sys, threading, time
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

WORLD = 3


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Heartbeat(threading.Thread):
    """Tells the cluster's manager that the rank lives."""

    def __init__(self, path):
        super().__init__(name="heartbeat")
        self.path = path

    def run(self):
        while True:
            with open(self.path, "w") as file:
                file.write(str(time.time()))
            time.sleep(1)


def read_shard(rank, step):
    if rank == 1 and step == 40:
        truth("culprit", thread="MainThread")
        truth("settled")
        raise ValueError("shard 40: bad magic number")
    return torch.randn(8, 16)


def train(rank):
    truth("role", role=f"rank {rank}")
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    Heartbeat(f"beat-{rank}").start()
    model = DDP(torch.nn.Linear(16, 4))
    if rank != 1:
        truth("waiter")
    for step in range(1000):
        model(read_shard(rank, step)).pow(2).mean().backward()
        for p in model.parameters():
            p.grad = None


def launch():
    truth("root")
    truth("role", role="main")
    truth("waiter")
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(WORLD)}
    ranks = [
        subprocess.Popen([sys.executable, __file__], env={**os.environ, **meet, "RANK": str(rank)}) for rank in range(WORLD)
    ]
    for each in ranks:
        each.wait()


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]))
    else:
        launch()
