"""A step gives the GPU work of some ten seconds, and waits for the number that comes out."""
import json, os

import torch
from torch.utils.data import DataLoader, Dataset


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Images(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.randn(8192)


def step(weights, batch):
    for _ in range(260):
        batch = torch.tanh(batch @ weights)
    return batch.mean().item()


def main():
    truth("root")
    truth("role", role="main")
    weights = torch.randn(8192, 8192, device="cuda") / 90
    for number, batch in enumerate(DataLoader(Images(), batch_size=64, num_workers=1, pin_memory=True)):
        wide = batch.cuda(non_blocking=True).repeat(256, 1)
        if number == 1:
            truth("settled")
        step(weights, wide)


if __name__ == "__main__":
    main()
