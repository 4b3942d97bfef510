"""The workers of a loader meet at a barrier before each shard; one of them has fewer shards."""
import json
import os
import threading

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Shards(IterableDataset):
    def __init__(self, shards, workers):
        self.shards, self.together = shards, mp.get_context("fork").Barrier(workers)

    def __iter__(self):
        worker = get_worker_info()
        for number, shard in enumerate(self.shards[worker.id::worker.num_workers]):
            if number == 2:
                note("waiter")
            self.together.wait()
            for _ in range(12):
                yield torch.full((8,), float(shard))
        if worker.id == 2:
            note("culprit", thread="MainThread")
            threading.Timer(1.5, note, ["settled"]).start()


def start(number):
    note("role", role=f"dataloader worker {number}")


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    loader = DataLoader(Shards(list(range(8)), 3), batch_size=4, num_workers=3, worker_init_fn=start,
                        multiprocessing_context="fork", persistent_workers=True)
    for epoch in range(3):
        print(epoch, sum(batch.mean().item() for batch in loader), flush=True)


if __name__ == "__main__":
    main()
