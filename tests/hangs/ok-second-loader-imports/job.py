"""The workers of a second loader, which are spawned, import for a while, beside those of the first one, which wait for work."""

import json
import os
import time

from torch.utils.data import DataLoader


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


if __name__ != "__main__":
    begins = time.monotonic()
    while time.monotonic() < begins + 14:
        sum(range(1000))


class Numbers:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return float(index)


def main():
    say("root")
    say("role", role="main")
    train = DataLoader(Numbers(), num_workers=1, persistent_workers=True, multiprocessing_context="fork")
    validate = DataLoader(Numbers(), num_workers=1, multiprocessing_context="spawn")
    for _ in range(4):
        print(sum(batch.item() for batch in train), flush=True)
        say("settled")
        print(sum(batch.item() for batch in validate), flush=True)


if __name__ == "__main__":
    main()
