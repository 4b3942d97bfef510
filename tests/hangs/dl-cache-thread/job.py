import json, os, queue, threading, time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.utils.data import DataLoader, Dataset


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Request:
    def __init__(self, key):
        self.key, self.value, self.ready = key, None, threading.Event()


class Fetcher:
    """One connection to the feature store, shared by all callers."""

    def __init__(self):
        self.requests = queue.SimpleQueue()
        threading.Thread(target=self.run, name="fetcher", daemon=True).start()

    def query(self, key):
        g = torch.Generator().manual_seed(key)
        return torch.randn(16, generator=g)

    def run(self):
        while True:
            r = self.requests.get()
            r.value = self.query(r.key)
            r.ready.set()

    def fetch(self, key):
        r = Request(key)
        self.requests.put(r)
        if threading.current_thread() is threading.main_thread() and os.getpid() != OWNER:
            truth("culprit", thread="MainThread")
        r.ready.wait()  # CULPRIT
        return r.value


OWNER = os.getpid()


class UserFeatures(Dataset):
    def __init__(self, users):
        self.users, self.store, self.hot = users, Fetcher(), {}
        for u in users[:24]:
            self.hot[u] = self.store.fetch(u)

    def __len__(self):
        return len(self.users)

    def __getitem__(self, i):
        u = self.users[i]
        if u in self.hot:
            return self.hot[u]
        return self.store.fetch(u)


def number(worker):
    truth("role", role=f"dataloader worker {worker}")


def train(data, epochs):
    model = torch.nn.Linear(16, 2)
    loader = DataLoader(data, batch_size=8, num_workers=3, worker_init_fn=number)
    threading.Timer(4, truth, ("settled",)).start()
    for epoch in range(epochs):
        for x in loader:
            model(x).mean().backward()


def main():
    truth("root")
    truth("role", role="main")
    data = UserFeatures(list(range(400)))
    truth("waiter")
    train(data, 3)


if __name__ == "__main__":
    main()
