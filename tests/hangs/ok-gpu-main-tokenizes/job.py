import collections
import json
import os
import random

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"


class Rows(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.randn(64)


def encoder(conn):
    say("role", role="process encoder")
    net = torch.nn.Linear(64, 8).to(DEV)
    with torch.no_grad():
        while True:
            conn.send(net(conn.recv().to(DEV)).cpu().sum().item())


def merge(text, n):
    for _ in range(n):
        pairs = collections.Counter(zip(text, text[1:]))
        best, new = pairs.most_common(1)[0][0], max(text) + 1
        out, i = [], 0
        while i < len(text):
            if i + 1 < len(text) and (text[i], text[i + 1]) == best:
                out.append(new)
                i += 2
            else:
                out.append(text[i])
                i += 1
        text = out
    return text


def init(worker):
    say("role", role=f"dataloader worker {worker}")


def main():
    say("root")
    say("role", role="main")
    here, there = mp.get_context("spawn").Pipe()
    mp.get_context("spawn").Process(target=encoder, args=(there,), daemon=True).start()
    loader = DataLoader(Rows(), batch_size=8, num_workers=2, persistent_workers=True, worker_init_fn=init)
    rng = random.Random(1)
    while True:
        for x in loader:
            here.send(x)
            here.recv()
        for doc in range(200):
            merge([rng.randrange(64) for _ in range(40_000)], 60)
            say("progress", doc=doc)
            if doc == 0:
                say("settled")


if __name__ == "__main__":
    main()
