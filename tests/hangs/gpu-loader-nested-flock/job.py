import contextlib
import fcntl
import json
import os
import tempfile
import threading

import torch
from torch.utils.data import DataLoader, Dataset

DEV = "cuda" if torch.cuda.is_available() else "cpu"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

class CachedFeatures(Dataset):
    def __init__(self, root, n):
        self.root, self.n = root, n
        self.lock_path = os.path.join(root, "index.lock")
        self.index_path = os.path.join(root, "index.json")

    def __len__(self):
        return self.n

    @contextlib.contextmanager
    def index(self):
        with open(self.lock_path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                with open(self.index_path) as f:
                    yield json.load(f)
            except FileNotFoundError:
                yield {}

    def compact(self, index):
        truth("culprit")
        threading.Timer(4, truth, args=("settled",)).start()
        with open(self.lock_path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # CULPRIT
            with open(self.index_path + ".tmp", "w") as f:
                json.dump(index, f)
            os.replace(self.index_path + ".tmp", self.index_path)

    def __getitem__(self, i):
        x = torch.randn(128, generator=torch.Generator().manual_seed(i))
        with self.index() as index:
            index[str(i)] = float(x.norm())
            if i % 1000 == 999:
                self.compact({k: v for k, v in index.items() if v > 0})
        return x, i % 10


def main():
    truth("root")
    with tempfile.TemporaryDirectory() as root:
        loader = DataLoader(CachedFeatures(root, 6400), batch_size=32, num_workers=3, pin_memory=DEV == "cuda")
        model = torch.nn.Sequential(torch.nn.Linear(128, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 10)).to(DEV)
        opt = torch.optim.AdamW(model.parameters())
        for step, (x, y) in enumerate(loader):
            x, y = x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 10 == 0:
                print("step", step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
