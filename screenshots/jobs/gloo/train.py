"""Two ranks that train on the CPU; rank 1 goes to read a checkpoint that nobody writes, and rank 0 reduces its gradients."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS_BEFORE = 60
TEACHER = "teacher.ckpt"


def tell(event):
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(json.dumps({"event": event, "pid": os.getpid()}) + "\n")


def distill(step):
    if dist.get_rank() == 1 and step == STEPS_BEFORE:
        tell("stuck")
        with open(TEACHER, "rb") as checkpoint:
            return checkpoint.read()
    return None


def train():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1000):
        distill(step)
        optimizer.zero_grad()
        model(torch.randn(4, 64)).square().mean().backward()
        optimizer.step()
        time.sleep(0.09)
        if step == 20 and dist.get_rank() == 0:
            tell("settled")


if __name__ == "__main__":
    if "RANK" not in os.environ:
        os.mkfifo(TEACHER)
        tell("root")
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29741"]
        os.execv(sys.executable, [*launcher, "train.py"])
    train()
