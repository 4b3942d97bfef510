import json
import os
import threading
import time

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"
WARMUP = 16


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def actor(rank, rollouts, warm):
    torch.manual_seed(rank)
    policy = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.Tanh(), torch.nn.Linear(256, 4)).to(DEV)
    obs = torch.randn(64, 32, device=DEV)
    keep = []
    for step in range(10_000):
        with torch.no_grad():
            action = policy(obs).argmax(-1)
            obs = obs + 0.01 * torch.randn_like(obs)
        rollout = (obs.clone(), action)
        keep = (keep + [rollout])[-64:]
        rollouts.put(rollout)
        if step + 1 == WARMUP:
            warm.set()


def report_when_full(rollouts):
    while not rollouts.full():
        time.sleep(0.2)
    time.sleep(2)
    truth("settled")


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    rollouts = ctx.Queue(maxsize=8)
    warm = [ctx.Event() for _ in range(2)]
    actors = [ctx.Process(target=actor, args=(i, rollouts, w), daemon=True) for i, w in enumerate(warm)]
    for a in actors:
        a.start()

    value = torch.nn.Linear(32, 4).to(DEV)
    opt = torch.optim.Adam(value.parameters(), lr=1e-3)
    threading.Thread(target=report_when_full, args=(rollouts,), daemon=True).start()
    truth("culprit")
    for w in warm:
        w.wait()  # CULPRIT

    for update in range(1000):
        obs, action = rollouts.get()
        loss = torch.nn.functional.cross_entropy(value(obs), action)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        del obs, action
        if update % 100 == 0:
            print(f"update {update} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
