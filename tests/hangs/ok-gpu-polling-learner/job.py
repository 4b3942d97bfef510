import json
import os
import queue
import time

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 4096 if DEV == "cuda" else 512


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def actor(rank, weights, rollouts):
    torch.manual_seed(rank)
    policy = torch.nn.Linear(64, 8).to(DEV)
    keep = []
    while True:
        try:
            w = weights.get_nowait()
            with torch.no_grad():
                policy.weight.copy_(w)
            del w
        except queue.Empty:
            pass
        obs = torch.randn(256, 64, device=DEV)
        with torch.no_grad():
            rollout = (obs, policy(obs).argmax(-1))
        keep = (keep + [rollout])[-16:]
        rollouts.put((rank, rollout))
        time.sleep(0.7)


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    rollouts = ctx.Queue(maxsize=4)
    weights = [ctx.Queue() for _ in range(2)]
    for r, q in enumerate(weights):
        ctx.Process(target=actor, args=(r, q, rollouts), daemon=True).start()
    policy = torch.nn.Linear(64, 8).to(DEV)
    critic = torch.randn(WIDTH, WIDTH, device=DEV) / WIDTH ** 0.5
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    update = 0
    while update < 5000:
        try:
            rank, (obs, action) = rollouts.get(timeout=0.5)
        except queue.Empty:
            continue
        h = critic
        for _ in range(60):
            h = torch.tanh(h @ critic)
        loss = torch.nn.functional.cross_entropy(policy(obs), action) + h.mean() * 0
        opt.zero_grad()
        loss.backward()
        opt.step()
        del obs, action
        update += 1
        if update % 4 == 0:
            print("update", update, loss.item(), flush=True)
            snapshot = policy.weight.detach().clone()
            weights[rank].put(snapshot)
        if update == 8:
            truth("settled")


if __name__ == "__main__":
    main()
