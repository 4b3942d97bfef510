import ctypes
import json
import os
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

DEV = "cuda" if torch.cuda.is_available() else "cpu"
ctypes.CDLL(None).prctl(1, 9)


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def wait_for_file(path):
    while not os.path.exists(path):
        time.sleep(0.5)  # CULPRIT


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        truth("root", os.getppid())
    if DEV == "cuda":
        torch.cuda.set_device(0)
    torch.manual_seed(rank)

    total, world = 301, dist.get_world_size()
    rows = total - 32 * 2 * (world - 1) * rank
    data = TensorDataset(torch.randn(rows, 64), torch.randint(10, (rows,)))
    loader = DataLoader(data, batch_size=32, shuffle=True, pin_memory=DEV == "cuda")

    net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(DEV)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    path = f"/tmp/final-{os.environ['TORCHELASTIC_RUN_ID']}-{os.getppid()}.pt"

    for x, y in loader:
        x, y = x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()

    if rank == 0:
        torch.save(net.state_dict(), path)
    else:
        truth("culprit")
        threading.Timer(3, truth, args=("settled",)).start()
        wait_for_file(path)
    net.load_state_dict(torch.load(path, map_location=DEV))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
