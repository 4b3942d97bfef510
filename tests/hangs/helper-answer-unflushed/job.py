import json
import os
import subprocess
import sys

import torch
from torch.utils.data import DataLoader, Dataset


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

class Tagger:
    """One tagger process per worker, it takes a sentence a line and gives its tags a line."""

    def __init__(self, k):
        self.proc = subprocess.Popen([sys.executable, "tagger.py", str(k)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, bufsize=1)
        print(self.proc.stdout.readline().strip(), flush=True)

    def tags(self, sentence):
        self.proc.stdin.write(sentence + "\n")
        return self.proc.stdout.readline().split()  # CULPRIT


class Sentences(Dataset):
    tagger = None

    def __init__(self, n):
        self.rows = [" ".join(("the", "old", "man", "the", "boat", "slowly")[: 2 + i % 5]) for i in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        words = self.rows[i].split()
        if i < 8:
            tags = ["X"] * len(words)
        else:
            tags = self.tagger.tags(self.rows[i])
        return torch.tensor([len(words), tags.count("X")], dtype=torch.float32)

    @classmethod
    def start(cls, k):
        say("role", role=f"dataloader worker {k}")
        say("culprit", thread="MainThread")
        settle(5)
        cls.tagger = Tagger(k)


def fit(loader):
    weight = torch.zeros(2)
    for step, x in enumerate(loader):
        weight += 0.1 * (x.mean(0) - weight)
        print(step, weight.tolist(), flush=True)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    settle(5)
    fit(DataLoader(Sentences(400), batch_size=4, num_workers=2, worker_init_fn=Sentences.start,
                   multiprocessing_context="fork"))


if __name__ == "__main__":
    main()
