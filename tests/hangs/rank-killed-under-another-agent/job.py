"""Two-level launcher: main starts one agent a node, an agent starts its ranks (here all on one host)."""
import json
import multiprocessing as mp
import os
import signal
import socket
import time
from datetime import timedelta

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist

NODES, PER_NODE = 2, 2
ctx = mp.get_context("fork")


def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def load_shard(rank):
    shard = [torch.zeros(1 << 18) for _ in range(4 + rank)]
    time.sleep(0.5)
    if rank == 3:
        say("culprit", thread="MainThread", dead=True)
        say("settled")
        os.kill(os.getpid(), signal.SIGKILL)  # memory limit of the node's cgroup
    return torch.cat(shard)


def worker(rank, world):
    say("role", role=f"rank {rank}")
    if rank != 3:
        say("waiter")
    weights = load_shard(rank)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=timedelta(hours=2))
    norm = weights.norm()
    dist.all_reduce(norm)
    for step in range(10_000):
        dist.all_reduce(weights[:1024])
        time.sleep(0.05)


class NodeAgent:
    def __init__(self, node):
        self.node, self.ranks = node, []

    def run(self):
        say("role", role=f"process agent-{self.node}")
        say("waiter")
        for local in range(PER_NODE):
            rank = self.node * PER_NODE + local
            p = ctx.Process(target=worker, args=(rank, NODES * PER_NODE), name=f"rank-{rank}")
            p.start()
            self.ranks.append(p)
        self.monitor()

    def monitor(self):
        for p in self.ranks:
            p.join()
            if p.exitcode:
                print(f"{p.name} failed with {p.exitcode}", flush=True)
                for other in self.ranks:
                    other.kill()
                raise SystemExit(1)


def main():
    say("root")
    say("role", role="launcher")
    say("waiter")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1]))
    agents = [ctx.Process(target=NodeAgent(n).run, name=f"agent-{n}") for n in range(NODES)]
    for a in agents:
        a.start()
    for a in agents:
        a.join()


if __name__ == "__main__":
    main()
