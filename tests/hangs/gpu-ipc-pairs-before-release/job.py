import json
import os

import torch
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"


def augment(views, released, settle):
    say("role", role="process augmenter")
    view = torch.empty(32, 256, device=DEV)
    step = 0
    while True:
        view.normal_()
        if DEV == "cuda":
            torch.cuda.synchronize()
        views.put(view)
        step += 1
        if step == settle:
            say("culprit", thread="MainThread")
        released.acquire()  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("spawn")
    views, released = ctx.Queue(4), ctx.Semaphore(0)
    ctx.Process(target=augment, args=(views, released, 31), daemon=True).start()
    encoder = torch.nn.Linear(256, 64).to(DEV)
    optim = torch.optim.Adam(encoder.parameters())
    for step in range(30):                                   # warm-up: reconstruct single views
        x = views.get()
        loss = encoder(x).square().mean()
        loss.backward()
        optim.step()
        optim.zero_grad()
        loss.item()
        del x
        released.release()
    while True:                                              # then contrast two of them
        a = views.get()
        say("culprit", thread="MainThread")
        say("settled")
        b = views.get()  # CULPRIT
        loss = (encoder(a) - encoder(b)).square().mean()
        loss.backward()
        optim.step()
        del a, b
        released.release()
        released.release()


if __name__ == "__main__":
    main()
