import json
import os
import time

import torch.utils.data


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Records(torch.utils.data.IterableDataset):
    """Asked for one by one, from a server that takes its time."""

    def __iter__(self):
        say("role", role="dataloader worker 0")
        for number in range(1000):
            time.sleep(3.5)
            yield float(number)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("settled")
    for batch in torch.utils.data.DataLoader(Records(), batch_size=4, num_workers=1, multiprocessing_context="fork"):
        print(batch)
