"""A DataLoader with workers, some epochs."""

import sys

import torch
from torch.utils.data import DataLoader


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((4,), float(index * index)), index


def main(method, epochs):
    for _ in range(int(epochs)):
        loader = DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context=method)
        print(sum(float(values.sum()) + int(indices.sum()) for values, indices in loader))


if __name__ == "__main__":
    main(*sys.argv[1:])
