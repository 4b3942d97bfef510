"""A loader worker draws places in a picture until one is marked, and in this picture none is."""

import json
import os
import random

from torch.utils.data import DataLoader, Dataset


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Crops(Dataset):
    def __init__(self):
        self.random, self.size = random.Random(7), 64

    def __len__(self):
        return 400

    def place(self):
        return self.random.randrange(self.size), self.random.randrange(self.size)

    def __getitem__(self, number):
        marked = set() if number == 9 else {(row, column) for row in range(20, 40) for column in range(20, 40)}
        if not marked:
            say("culprit")
            say("settled")
        place = self.place()
        while place not in marked:
            place = self.place()  # CULPRIT
        return place[0] + place[1]


def begin(number):
    say("role", role=f"dataloader worker {number}")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    for batch in DataLoader(Crops(), batch_size=4, num_workers=2, worker_init_fn=begin):
        print(batch.sum().item(), flush=True)


if __name__ == "__main__":
    main()
