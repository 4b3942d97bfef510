import json
import os
import multiprocessing as std_mp

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.utils.data import DataLoader, Dataset


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


class Settings:
    def __init__(self, **kw):
        self.loader_workers = 4
        self.batch = 4
        self.__dict__.update(kw)


class Archive:
    """Workers open the archive one after the other and start together."""

    def __init__(self, ctx, parties):
        self.gate = ctx.Barrier(parties)
        self.handle = None

    def open(self):
        self.handle = object()
        say("waiter")
        settle(4)
        self.gate.wait()


class Tiles(Dataset):
    def __init__(self, archive, n):
        self.archive, self.n = archive, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.archive.handle is None:
            raise RuntimeError("archive not open")
        return torch.full((2, 2), float(i))


class DataModule:
    def __init__(self, settings):
        self.s = settings
        self.ctx = std_mp.get_context("fork")
        # one per worker, see Settings
        self.archive = Archive(self.ctx, Settings().loader_workers)

    def init_worker(self, i):
        say("role", role=f"dataloader worker {i}")
        self.archive.open()

    def train_loader(self):
        return DataLoader(Tiles(self.archive, 400), batch_size=self.s.batch, num_workers=self.s.loader_workers,
                          worker_init_fn=self.init_worker, multiprocessing_context=self.ctx)


def fit(model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:  # CULPRIT
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread", missing=["dataloader worker 3"])
    data = DataModule(Settings(loader_workers=3))
    fit(torch.nn.Linear(2, 2), data.train_loader())


if __name__ == "__main__":
    main()
