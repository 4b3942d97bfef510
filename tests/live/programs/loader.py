"""A worker of a real DataLoader sleeps in `__getitem__`."""

import os
import time

import torch
from ready import say
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 21:
            say(child=os.getpid())
            time.sleep(1000)  # STUCK
        return torch.full((3,), float(index))


if __name__ == "__main__":
    for batch in DataLoader(Photos(), batch_size=4, num_workers=2):
        batch.sum()
