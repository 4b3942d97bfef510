import json
import os

import torch
from torch.utils.data import DataLoader, Dataset

from bridge import Bucket


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def init(worker):
    say("role", role=f"dataloader worker {worker}")
    say("culprit", thread="MainThread")
    if worker == 1:
        say("settled")


class Objects(Dataset):
    def __init__(self):
        self.bucket = Bucket(64)
        self.names = self.bucket.names()

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        return torch.tensor(list(self.bucket.cat(self.names[i])), dtype=torch.float32)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    model = torch.nn.Linear(32, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Objects(),
        batch_size=4,
        num_workers=2,
        worker_init_fn=init,
        multiprocessing_context="fork",
    )



    for x in loader:
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()


if __name__ == "__main__":
    main()
