import ctypes
import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

DEV = "cuda" if torch.cuda.is_available() else "cpu"
ctypes.CDLL(None).prctl(1, 9)


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def augment(x, rounds):
    for _ in range(rounds):
        x = x + 0.01 * torch.randn_like(x)
        time.sleep(0.1)
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        truth("root", os.getppid())
    if DEV == "cuda":
        torch.cuda.set_device(0)
    torch.manual_seed(rank)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(128, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 128)).to(DEV))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1200):
        x = augment(torch.randn(256, 128), rounds=1 + 9 * rank).to(DEV)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            print("step", step, loss.item(), flush=True)
            if step == 2:
                truth("settled")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
