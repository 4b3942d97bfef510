import json
import os

from torch.utils.data import DataLoader, Dataset

import vocab


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Text(Dataset):
    def __len__(self): return 100

    def __getitem__(self, i):
        return len(vocab.get(i))


def init(worker):
    say("role", role=f"dataloader worker {worker}"), say("culprit", thread="MainThread")
    if worker == 1:
        say("settled")


def main():
    say("root"), say("role", role="main")
    vocab.REFRESHING.wait()
    loader = DataLoader(Text(), 4, num_workers=2, worker_init_fn=init, multiprocessing_context="fork")
    for lengths in loader: lengths.sum()



if __name__ == "__main__":
    main()
