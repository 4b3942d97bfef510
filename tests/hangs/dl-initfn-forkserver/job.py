import json
import multiprocessing as mp
import os
import socket

import torch
from torch.utils.data import DataLoader, Dataset


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Volumes(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        return torch.zeros(4) + i


def check_out(worker):
    say("role", role=f"dataloader worker {worker}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"checkout volume-reader", ("127.0.0.1", 9))
        say("culprit", thread="MainThread", all=True)
        say("settled")
        return s.recvfrom(512)  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("forkserver")
    ctx.set_forkserver_preload(["torch"])
    for x in DataLoader(Volumes(), 4, num_workers=2, worker_init_fn=check_out, multiprocessing_context=ctx):
        x.mean()


if __name__ == "__main__":
    main()
