"""Two ranks train; the chief looks at all weights in step 20, alone."""
import json
import os

import torch
import torch.distributed as dist


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Trainer:
    def __init__(self):
        dist.init_process_group("gloo")
        self.chief = dist.get_rank() == 0
        self.weights = torch.ones(8)

    def summary(self):
        parts = [torch.empty(8) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, self.weights)  # CULPRIT
        return torch.stack(parts).mean()

    def fit(self, steps):
        for step in range(steps):
            change = self.weights * 0.01
            dist.all_reduce(change)
            if step == 20 and self.chief:
                truth("culprit")
                truth("settled")
                print(self.summary())
            self.weights -= change


if __name__ == "__main__":
    number = int(os.environ["RANK"])
    if number == 0:
        truth("root", pid=os.getppid())
        truth("role", pid=os.getppid(), role="launcher")
    truth("role", role=f"rank {number}")
    torch.set_num_threads(1)
    Trainer().fit(1000)
