import json
import multiprocessing as mp
import os

from torch.utils.data import DataLoader, Dataset


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Scenes(Dataset):
    """Now and then it asks the trainer for a hint, which gives one after each batch."""

    def __init__(self, hints):
        self.hints = hints

    def __len__(self):
        return 400

    def __getitem__(self, number):
        if number == 210:
            truth("culprit", thread="MainThread"), truth("settled")
            return self.hints.get()  # CULPRIT
        return number


def main():
    truth("root"), truth("role", role="main")
    truth("waiter")
    hints = mp.Manager().Queue()
    for _batch in DataLoader(Scenes(hints), batch_size=4, num_workers=2):
        pass
    hints.put(0)


if __name__ == "__main__":
    main()
