import json
import os
import threading

import torch
from torch.utils.data import DataLoader, Dataset


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"


class Slabs:
    """a fixed number of page-locked staging slabs"""

    def __init__(self, n):
        self.free = threading.Semaphore(n)
        self.user = None

    def take(self, x):
        self.user = threading.current_thread().name
        self.free.acquire()  # CULPRIT
        return x.pin_memory() if DEV == "cuda" else x

    def give(self, n):
        for _ in range(n):
            self.free.release()


SLABS = Slabs(3)


class SlabBatch:
    def __init__(self, rows):
        self.x = torch.stack(rows)

    def pin_memory(self):
        self.x = SLABS.take(self.x)
        return self


class Clips(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        return torch.full((128,), float(i % 13))


def init(worker):
    say("role", role=f"dataloader worker {worker}")
    say("waiter")


def accumulation(step):
    return 2 if step < 10 else 4


def main():
    say("root")
    say("role", role="main")
    model = torch.nn.Linear(128, 16).to(DEV)
    optim = torch.optim.SGD(model.parameters(), 1e-4)
    loader = iter(DataLoader(Clips(), batch_size=8, num_workers=1, collate_fn=SlabBatch, pin_memory=True,
                             worker_init_fn=init))
    for step in range(10_000):
        window = []
        while len(window) < accumulation(step):
            if len(window) == 3:
                say("culprit", thread="MainThread")
                say("culprit", thread=SLABS.user)
                say("settled")
            window.append(next(loader))  # CULPRIT
        for b in window:
            model(b.x.to(DEV, non_blocking=True)).square().mean().backward()
        if DEV == "cuda":
            torch.cuda.synchronize()
        SLABS.give(len(window))
        optim.step()
        optim.zero_grad()


if __name__ == "__main__":
    main()
