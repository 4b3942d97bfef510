import json
import os
import sys
from collections import OrderedDict
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


class Reducer:
    def __init__(self, group, name):
        self.group, self.name = group, name
        self.pending = []

    def add(self, tensor):
        self.pending.append(tensor)

    def flush(self):
        flat = torch.cat([t.flatten() for t in self.pending])
        self._sync(flat)
        self.pending.clear()
        return flat

    def _sync(self, flat):
        dist.all_reduce(flat, group=self.group)  # CULPRIT


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.reducers = OrderedDict()

    def register(self, key, reducer):
        self.reducers[key] = reducer

    def end_of_step(self, step):
        if step == 3:
            if self.rank == 1:
                # a resumed run registered its hooks again
                self.reducers.move_to_end("grad")
                say("culprit", thread="MainThread")
            else:
                say("waiter")
            settle(3)
        for r in self.reducers.values():
            if r.group is not dist.GroupMember.NON_GROUP_MEMBER:
                r.flush()

    def step(self, step):
        g = torch.full((1000,), float(step))
        self.reducers["grad"].add(g)
        self.reducers["metrics"].add(torch.ones(4))
        self.end_of_step(step)


def main():
    rank = int(os.environ["RANK"])
    say("role", role=f"rank {rank}")
    if rank == 0:
        say("root", os.getppid())
        say("role", os.getppid(), role="launcher")
    dist.init_process_group("gloo", timeout=timedelta(hours=2))
    logging_group = dist.new_group([0, 1])
    tr = Trainer(rank)
    tr.register("grad", Reducer(dist.group.WORLD, "grad"))
    tr.register("metrics", Reducer(logging_group, "metrics"))
    for step in range(10**6):
        tr.step(step)
    return 0


if __name__ == "__main__":
    sys.exit(main())
