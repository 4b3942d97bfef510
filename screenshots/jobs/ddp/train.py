"""Eight ranks that train on shards of a dataset; a worker of rank 3 comes to a shard that does not open."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS_BEFORE = 260
BAD_SHARD = "shard-00417.tar"


class Shards(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if os.environ["RANK"] == "3" and index >= STEPS_BEFORE * 4:
            self.read(BAD_SHARD)
        time.sleep(0.004)
        return torch.randn(64)

    def read(self, name):
        tell("stuck")
        with open(name, "rb") as shard:
            return shard.read()


def tell(event):
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(json.dumps({"event": event, "pid": os.getpid()}) + "\n")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, batch in enumerate(DataLoader(Shards(), batch_size=4, num_workers=2)):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        time.sleep(0.09)
        if step == 20 and dist.get_rank() == 0:
            tell("settled")


if __name__ == "__main__":
    if "RANK" not in os.environ:
        os.mkfifo(BAD_SHARD)
        tell("root")
        torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
        os.execv(torchrun, [torchrun, "--nproc-per-node", "8", "--master-port", "29731", "train.py"])
    main()
