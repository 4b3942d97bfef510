import json
import os
import threading

import torch
from torch.utils.data import DataLoader, Dataset

DEV = "cuda" if torch.cuda.is_available() else "cpu"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def random_crop(img, size=24):
    top = int(torch.randint(img.shape[1] - size, ()))  # CULPRIT
    left = int(torch.randint(img.shape[2] - size, ()))
    return img[:, top:top + size, left:left + size]


class Crops(Dataset):
    def __init__(self, n=2048, blank=(717,)):
        self.n, self.blank = n, set(blank)

    def __len__(self):
        return self.n

    def load(self, i):
        if i in self.blank:
            return torch.zeros(3, 48, 48)
        return torch.rand(3, 48, 48, generator=torch.Generator().manual_seed(i))

    def __getitem__(self, i):
        img = self.load(i)
        if img.std() < 0.05:
            truth("culprit")
            threading.Timer(4, truth, args=("settled",)).start()
        while (crop := random_crop(img)).std() < 0.05:  # CULPRIT
            continue
        return crop, i % 10


def main():
    truth("root")
    loader = DataLoader(Crops(), batch_size=32, num_workers=4, prefetch_factor=2, pin_memory=DEV == "cuda")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(512, 10),
    ).to(DEV)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(100):
        for x, y in loader:
            x, y = x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print("epoch", epoch, loss.item(), flush=True)


if __name__ == "__main__":
    main()
