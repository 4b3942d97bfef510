import json
import multiprocessing as mp
import os
import socket
import time

import torch
from torch.utils.data import DataLoader, Dataset

from tokenizer_client import Tokenizer

SOCKET = "tokenizer.sock"


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def serve(ready):
    say("role", role="process tokenizer")
    say("culprit", thread="MainThread")
    server = socket.socket(socket.AF_UNIX)
    server.bind(SOCKET)
    server.listen(8)
    ready.set()
    while True:
        client, _ = server.accept()
        answer(client.makefile("rw"))
        client.close()


def answer(wire):
    while True:
        line = wire.readline()  # CULPRIT
        if not line:
            return
        ids = [[hash(w) % 1000 for w in text.split()] for text in json.loads(line)]
        print(json.dumps(ids), file=wire, flush=True)


class Lines(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        return f"line {i} of the novel"


class Collate:
    def __init__(self):
        self.tokenizer = Tokenizer(SOCKET)

    def __call__(self, texts):
        if torch.utils.data.get_worker_info().id == 1:
            time.sleep(1)
        return torch.tensor(self.tokenizer(texts))


def name_worker(k):
    say("role", role=f"dataloader worker {k}")
    say("waiter")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    ready = ctx.Event()
    ctx.Process(target=serve, args=(ready,), daemon=True).start()
    ready.wait()
    loader = DataLoader(Lines(), batch_size=8, num_workers=2, collate_fn=Collate(), worker_init_fn=name_worker,
                        multiprocessing_context="fork")
    seen = 0
    for batch in loader:
        seen += len(batch)
        if seen == 8:
            time.sleep(1.5)
            say("settled")


if __name__ == "__main__":
    main()
