import json
import os
import threading

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"
WORKERS = 3


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def batch(rank, step):
    gen = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.rand(256, 32, generator=gen)
    if rank == 2 and step == 9:
        x[17, 3] = -1.0
    return x.to(DEV).log(), torch.rand(256, generator=gen).to(DEV)


def worker(rank, inbox, grads):
    step, sent = 0, []
    weights = inbox.get()
    while weights is not None:
        x, y = batch(rank, step)
        step += 1
        w = weights.clone().requires_grad_()
        loss = ((x @ w).sigmoid() - y).square().mean()
        if not torch.isfinite(loss):
            print(f"worker {rank}: step {step} loss {loss.item()}, skipping batch", flush=True)
            truth("culprit")
            threading.Timer(3, truth, args=("settled",)).start()
            weights = inbox.get()  # CULPRIT
            continue
        (g,) = torch.autograd.grad(loss, w)
        sent = (sent + [g])[-4:]
        grads.put((rank, g))
        weights = inbox.get()


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    grads = ctx.Queue()
    inboxes = [ctx.Queue() for _ in range(WORKERS)]
    procs = [ctx.Process(target=worker, args=(r, q, grads), daemon=True) for r, q in enumerate(inboxes)]
    for p in procs:
        p.start()

    weights = torch.zeros(32, device=DEV)
    for step in range(500):
        snapshot = weights.clone()
        for q in inboxes:
            q.put(snapshot)
        total = torch.zeros_like(weights)
        for _ in range(WORKERS):
            rank, g = grads.get()
            total += g
            del g
        weights -= 0.5 * total / WORKERS
        print("step", step, weights.norm().item(), flush=True)
    for q in inboxes:
        q.put(None)
    for p in procs:
        p.join()


if __name__ == "__main__":
    main()
