import json
import mmap
import multiprocessing as mp
import os
import signal
import struct
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.utils.data import DataLoader, Dataset

LIMIT = 1 << 60


def say(event, pid=None, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

class Shared:
    """One integer that the processes of this job can see."""

    def __init__(self):
        self.mem = mmap.mmap(-1, 4096)

    def get(self):
        return struct.unpack_from("q", self.mem)[0]

    def set(self, value):
        struct.pack_into("q", self.mem, 0, value)


class Curriculum(Dataset):
    def __init__(self, stage):
        self.stage = stage

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        while self.stage.get() < i // 64:
            time.sleep(0.2)
        return torch.randn(16) * self.stage.get()


def controller(stage):
    say("role", role="process controller")
    level = 0
    while True:
        time.sleep(0.1)
        level += 1
        stage.set(level)


def available():
    with open("/proc/meminfo") as f:
        return int(next(line for line in f if line.startswith("MemAvailable")).split()[1])


def memwatch(helpers):
    say("role", role="process memwatch")
    time.sleep(2.5)
    held = set()
    while True:
        low = available() < LIMIT
        for pid in helpers:
            if low and pid not in held:
                os.kill(pid, signal.SIGSTOP)
                held.add(pid)
                say("culprit", pid, thread="MainThread")
                say("waiter")
                say("settled")
            elif not low and pid in held:
                os.kill(pid, signal.SIGCONT)
                held.discard(pid)
        time.sleep(1)


def begin(worker):
    say("role", role=f"dataloader worker {worker}")
    say("waiter")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    stage = Shared()
    helper = ctx.Process(target=controller, args=(stage,), daemon=True)
    helper.start()
    ctx.Process(target=memwatch, args=([helper.pid],), daemon=True).start()
    model = torch.nn.Linear(16, 1)
    for x in DataLoader(Curriculum(stage), batch_size=32, num_workers=2, worker_init_fn=begin):
        model(x).mean().backward()


if __name__ == "__main__":
    main()
