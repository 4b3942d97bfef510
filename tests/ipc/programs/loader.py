"""A DataLoader that has given three batches, and goes on by one for each line it hears."""

import json
import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return torch.full((100,), index)


def main(method, workers):
    loader = DataLoader(Numbers(), batch_size=4, num_workers=int(workers), multiprocessing_context=method)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    print(json.dumps({"workers": [worker.pid for worker in batches._workers], "pid": os.getpid()}), flush=True)
    while sys.stdin.readline():
        next(batches)
        print(json.dumps({"done": "batch"}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
