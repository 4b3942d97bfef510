"""Training on a stream of decoded clips; the licence allows one open decoder, so decoders share a slot."""
import json, os, time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Decoder:
    """Opens a clip; frees its slot when the clip is closed."""
    slots = mp.get_context("fork").BoundedSemaphore(1)

    def __init__(self, clip):
        self.clip = clip

    def __enter__(self):
        Decoder.slots.acquire()
        return self

    def frames(self):
        for k in range(self.clip["frames"]):
            time.sleep(0.005)
            yield torch.full((3, 8, 8), k / self.clip["frames"])

    def __exit__(self, *exc):
        Decoder.slots.release()


class ClipStream(IterableDataset):
    def __init__(self, split, clips):
        self.split, self.clips = split, clips

    def __iter__(self):
        me = get_worker_info().id
        truth("role", role=f"dataloader worker {me}")
        truth("culprit" if self.split == "train" else "waiter", **({"thread": "MainThread"} if self.split == "train" else {}))
        for clip in self.clips:
            with Decoder(clip) as d:
                yield from d.frames()


class Trainer:
    VALIDATE_EVERY = 12

    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-3)
        self.train_data = ClipStream("train", [{"frames": 400}] * 50)
        self.valid_data = ClipStream("valid", [{"frames": 40}])

    def step(self, batch):
        loss = self.net(batch).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

    @torch.no_grad()
    def validate(self):
        truth("culprit", thread="MainThread")
        truth("settled")
        total = 0.0
        for batch in DataLoader(self.valid_data, batch_size=8, num_workers=1, prefetch_factor=2):
            total += self.net(batch).mean().item()
        return total

    def fit(self):
        for k, batch in enumerate(DataLoader(self.train_data, batch_size=8, num_workers=1, prefetch_factor=2), 1):
            self.step(batch)
            truth("progress")
            if k % self.VALIDATE_EVERY == 0:
                self.validate()


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    torch.set_num_threads(1)
    Trainer().fit()
