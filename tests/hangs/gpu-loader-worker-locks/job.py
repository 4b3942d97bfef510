"""Two ranks of DDP on gloo share a GPU, each with a loader that pins its memory. One worker takes a lock that was forked locked."""
import ctypes, json, os, threading
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

CACHE = threading.Lock()


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Images(Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if self.rank == 1 and index == 1201:
            truth("culprit")
            truth("settled")
            with CACHE:  # CULPRIT
                pass
        return torch.full((256,), float(index))


def batches(rank):
    loader = DataLoader(Images(rank), batch_size=32, num_workers=2, pin_memory=True)
    with CACHE if rank else threading.Lock():
        iterator = iter(loader)
    return iterator


def main():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    rank = int(os.environ["RANK"])
    if rank == 0:
        truth("root", os.getppid())
        truth("role", os.getppid(), role="launcher")
    truth("role", role=f"rank {rank}")
    torch.cuda.set_device(0)
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    model = DDP(torch.nn.Linear(256, 16).cuda())
    for batch in batches(rank):
        loss = model(batch.cuda(non_blocking=True)).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 1e-9 * p.grad
                p.grad = None


if __name__ == "__main__":
    main()
