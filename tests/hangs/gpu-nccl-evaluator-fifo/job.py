import ctypes
import json
import os
import tempfile
import threading

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

DEV = "cuda" if torch.cuda.is_available() else "cpu"
ctypes.CDLL(None).prctl(1, 9)


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def build():
    return torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(DEV)


def evaluator(path, weights, scores):
    net = build().eval()
    while True:
        epoch, state = weights.get()
        net.load_state_dict(state)
        del state
        truth("culprit")
        threading.Timer(3, truth, args=("settled",)).start()
        with open(path, "rb") as f:  # CULPRIT
            raw = bytearray(f.read())
        data = torch.frombuffer(raw, dtype=torch.float32).view(-1, 33).to(DEV)
        with torch.inference_mode():
            hits = net(data[:, :32]).argmax(1) == data[:, 32].long()
        scores.put((epoch, hits.float().mean().item()))


def main():
    truth("root", os.getppid())
    if DEV == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("nccl" if DEV == "cuda" else "gloo")
    path = os.path.join(tempfile.mkdtemp(), "validation.fifo")
    os.mkfifo(path)
    ctx = mp.get_context("spawn")
    weights, scores = ctx.Queue(), ctx.Queue()
    ctx.Process(target=evaluator, args=(path, weights, scores), daemon=True).start()

    model = DDP(build())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(50):
        for _ in range(100):
            x = torch.randn(128, 32, device=DEV)
            y = x[:, :10].argmax(1)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        state = {k: v.detach().clone() for k, v in model.module.state_dict().items()}
        weights.put((epoch, state))
        _, score = scores.get()
        total = torch.tensor([score], device=DEV)
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print("epoch", epoch, total.item() / dist.get_world_size(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
