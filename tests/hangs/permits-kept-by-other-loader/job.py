import json
import multiprocessing as mp
import os

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

PERMITS = mp.get_context("fork").Semaphore(2)      # the share allows two open files


class Records(IterableDataset):
    def __init__(self, name, n):
        self.name, self.n = name, n
        with open(name, "wb") as f:
            f.write(os.urandom(16) * n)

    def __iter__(self):
        info = get_worker_info()
        PERMITS.acquire()
        try:
            with open(self.name, "rb") as f:
                for i in range(info.id, self.n, info.num_workers):
                    f.seek(16 * i)
                    yield torch.frombuffer(bytearray(f.read(16)), dtype=torch.uint8).float()
        finally:
            PERMITS.release()


def roles(kind):
    def init(worker):
        say("role", role=f"dataloader worker {worker + (2 if kind == 'val' else 0)}")
        if kind == "train":
            say("culprit", thread="MainThread")
        else:
            say("waiter")
    return init


def loader(data, kind):
    return DataLoader(data, batch_size=8, num_workers=2, worker_init_fn=roles(kind), multiprocessing_context="fork")


def validate(model, batches):
    with torch.no_grad():
        return sum(model(x).mean().item() for x in batches)


def main():
    say("root")
    say("role", role="main")
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 1)
    train, val = loader(Records("train.bin", 4000), "train"), loader(Records("val.bin", 400), "val")
    for step, x in enumerate(train):
        model(x).mean().backward()
        if step % 20 == 19:
            say("culprit", thread="MainThread")
            say("settled")
            print(step, validate(model, val))


if __name__ == "__main__":
    main()
