import json
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset

DEV = "cuda" if torch.cuda.is_available() else "cpu"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

class RemoteShards(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        time.sleep(0.25)
        gen = torch.Generator().manual_seed(i)
        return torch.rand(3, 64, 64, generator=gen), i % 10


def main():
    truth("root")
    loader = DataLoader(RemoteShards(), batch_size=8, num_workers=2, pin_memory=DEV == "cuda", persistent_workers=True)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 5, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(1024, 10),
    ).to(DEV)
    opt = torch.optim.AdamW(model.parameters())
    for step, (x, y) in enumerate(loader):
        x, y = x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, loss.item(), flush=True)
        if step == 2:
            truth("settled")


if __name__ == "__main__":
    main()
