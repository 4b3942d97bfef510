import json
import os

import torch
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"


def learner(values, inbox):
    say("role", role="process learner")
    net = torch.nn.Linear(32, 1).to(DEV)
    optim = torch.optim.SGD(net.parameters(), 1e-3)
    for step in range(100_000):
        while inbox.poll():                                  # requests are served between steps
            inbox.recv()
            inbox.send(net.weight.detach().abs().sum().item())
        x = torch.randn(16, 32)
        values.send(x)
        if step == 50:
            say("culprit", thread="MainThread")
        target = values.recv()  # CULPRIT
        (net(x.to(DEV)) - torch.tensor(target, device=DEV)).square().mean().backward()
        optim.step()
        optim.zero_grad()


def value_server(inbox, replay):
    say("role", role="process values")
    net, served, norm = torch.nn.Linear(32, 1).to(DEV), 0, 1.0
    while True:
        x = inbox.recv()
        if served == 50:                                     # statistics are stale
            replay.send("norm")
            say("culprit", thread="MainThread")
            norm = replay.recv()  # CULPRIT
        with torch.no_grad():
            inbox.send(net(x.to(DEV) / norm).tolist())
        served += 1


def replay_buffer(inbox, learner_):
    say("role", role="process replay")
    store = torch.randn(1000, 32)
    while True:
        inbox.recv()
        learner_.send("priority")
        say("culprit", thread="MainThread")
        say("settled")
        scale = learner_.recv()  # CULPRIT
        inbox.send(store.std().item() * scale)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("spawn")
    lv, vr, rl = ctx.Pipe(), ctx.Pipe(), ctx.Pipe()
    ctx.Process(target=value_server, args=(lv[1], vr[0]), daemon=True).start()
    ctx.Process(target=replay_buffer, args=(vr[1], rl[0]), daemon=True).start()
    p = ctx.Process(target=learner, args=(lv[0], rl[1]))
    p.start()
    p.join()


if __name__ == "__main__":
    main()
